import Foundation
import Model
import Support
import Testing

@testable import Merge

@Suite("Rules of merging") struct MergeRulesTests {
    private func choice(_ path: String, _ file: String) -> MergeRules.Choice {
        MergeRules(file: Array(file.utf8)).choice(for: components(path))
    }

    @Test("the defaults without a file", arguments: [("a.txt", "text"), ("x/B.JSON", "json")])
    func usual(path: String, driver: String) {
        let choice = MergeRules().choice(for: components(path))
        #expect(choice.driver.description == driver)
        #expect(choice.driverLine == nil && choice.automerge == .on)
    }

    @Test(
        "a line sets the driver",
        arguments: [
            ("list.txt merge=union", "list.txt", "union"),
            ("*.TXT merge=union", "list.txt", "text"),
            ("notes/*.txt merge=union", "list.txt", "text"),
            ("/list.txt merge=union", "deep/list.txt", "text"),
            ("list.txt merge=union", "deep/list.txt", "union"),
            ("a/** merge=binary", "a/b/c", "binary"),
            ("\"a b.txt\" merge=union", "a b.txt", "union"),
            ("\"\\303\\244\\t.txt\" merge=union", "ä\t.txt", "union"),
            ("*.txt merge=union\n*.txt !merge", "x.txt", "text"),
            ("*.txt merge=union\n*.txt -merge", "x.txt", "binary"),
            ("*.txt -merge\n*.txt merge", "x.txt", "text"),
            ("*.txt binary", "x.txt", "binary"),
            ("[attr]list merge=union automerge=ask\n*.txt list", "x.txt", "union"),
            ("\\#x merge=union", "#x", "union"),
            ("\\!x merge=union", "!x", "union"),
            ("# a merge=union\n\n  x\tmerge=docx-3  \r", "x", "docx-3"),
            ("\u{feff}x merge=union", "x", "union"),
        ])
    func lines(file: String, path: String, driver: String) {
        #expect(choice(path, file).driver.description == driver)
        #expect(MergeRules(file: Array(file.utf8)).problems.isEmpty)
    }

    @Test("a line sets who waits for whom") func lock() {
        let file = "a/** lock=ask\n*.md lock=hard\na/free.md !lock\n"
        #expect(choice("b.txt", file).lock == .notice)
        #expect(choice("a/b.txt", file).lock == .ask)
        #expect(choice("a/c.md", file).lock == .hard)
        #expect(choice("a/free.md", file).lock == .notice)
        let rules = MergeRules(file: Array(file.utf8))
        #expect(rules.problems.isEmpty)
        #expect(rules.line(setting: .hard) == 2 && rules.line(setting: .notice) == nil)
        #expect(rules.makesWait(at: components("a/x")) && !rules.makesWait(at: components("x")))
    }

    @Test("what was fenced off is merged only if the rules say so") func hardLocksAndMerging() {
        #expect(choice("a.md", "*.md lock=hard\n").automerge == .ask)
        #expect(choice("a.md", "* automerge=on\n*.md lock=hard\n").automerge == .on)
        #expect(choice("a.md", "*.md lock=hard\n*.md !lock\n").automerge == .on)
        #expect(choice("a.md", "*.md lock=ask\n").automerge == .on)
    }

    @Test("later lines win setting by setting, and the choice names their numbers") func later() {
        let choice = choice("a/x.md", "* automerge=ask\n*.md merge=union\na/* automerge=off\n")
        #expect(choice.driver == .union && choice.driverLine == 2)
        #expect(choice.automerge == .off && choice.automergeLine == 3)
    }

    @Test(
        "an invalid line is reported with its number",
        arguments: [
            ("x merge=", 1, "merge="), ("\nx merge=rm;-rf", 2, "rm;-rf"),
            ("x automerge=maybe", 1, "automerge=maybe"), ("x lock", 1, "lock"),
            ("x lock=maybe", 1, "lock=hard"), ("[attr]lock merge", 1, "macro"),
            ("!x merge=text", 1, "'!'"),
            ("x/ merge=text", 1, "x/**"), ("x", 1, "nothing is said"),
            ("\"x merge=text", 1, "quotation"), ("\"x\"y merge=text", 1, "quotation"),
            ("\"\\q\" merge=text", 1, "escape"), ("x eol=lf", 1, "eol=lf"),
            ("[attr]merge merge=text", 1, "macro"), ("/ merge=text", 1, "directories"),
        ])
    func problems(file: String, line: Int, word: String) {
        let problems = MergeRules(file: Array(file.utf8)).problems
        #expect(problems.count == 1)
        #expect(problems.first?.line == line)
        #expect(problems.first?.message.contains(word) == true, "\(problems)")
        #expect(problems.first?.description.hasPrefix(".concordattributes line \(line): ") == true)
    }

    @Test("a line with an unknown word is used for its other words") func partly() {
        let rules = MergeRules(file: Array("x text merge=union".utf8))
        #expect(rules.problems.count == 1)
        #expect(rules.choice(for: components("x")).driver == .union)
    }

    @Test("any bytes are parsed without a crash") func anyBytes() {
        var random = SeededRandom(named: "rules", usual: 3)
        let words = [
            "\"", "\\", "x", " ", "\n", "merge=", "[attr]", "!", "*", "/", "text", "=", "\0",
        ]
        for _ in 0..<2000 {
            var bytes: [UInt8] = []
            for _ in 0..<random.below(12) {
                bytes +=
                    random.oneIn(5) ? [UInt8(random.below(256))] : Array(random.pick(words).utf8)
            }
            let rules = MergeRules(file: bytes)
            _ = rules.choice(for: [Name("x")])
            let count = bytes.count { $0 == 0x0a } + 1
            #expect(rules.problems.allSatisfy { (1...count).contains($0.line) })
        }
        let long = MergeRules(file: [UInt8](repeating: 0x20, count: MergeRules.sizeMax + 1))
        #expect(long.problems.count == 1)
    }

    @Test("patterns match like git's") func asGit() throws {
        let directory = try TemporaryDirectory("patterns")
        var random = SeededRandom(named: "patterns", usual: 11)
        let atoms = ["a", "b", "*", "?", "/", "/", "**", "[ab]", "[!a]", "\\a", "**/", "/**", "."]
        var patterns: [String] = []
        while patterns.count < 400 {
            let pattern = (0...random.below(6)).map { _ in random.pick(atoms) }.joined()
            // Git ignores the first letters of a component if `**` follows them.
            let isOdd = ["a**", "b**", ".**"].contains { pattern.contains($0) }
            if pattern.last != "/", !pattern.contains("//"), !isOdd { patterns.append(pattern) }
        }
        var paths: [String] = []
        for _ in 0..<150 {
            let names = (0...random.below(4)).map { _ in
                (0...random.below(3)).map { _ in random.pick(["a", "b", "c"]) }.joined()
            }
            paths.append(names.joined(separator: "/"))
        }
        let file = patterns.enumerated().map { "\($1) p\($0)\n" }.joined()
        try directory.write(file, to: ".gitattributes")
        var git = Command("git", "-C", directory.path, "init", "-q")
        try git.succeed()
        git = Command("git", "-C", directory.path, "check-attr", "--all", "--stdin", "-z")
        git.input = Data(paths.map { $0 + "\0" }.joined().utf8)
        let words = try git.succeed().split(separator: "\0").map(String.init)
        var expected = Set<String>()
        for at in stride(from: 0, to: words.count - 2, by: 3) {
            expected.insert("\(words[at]) \(words[at + 1])")
        }
        #expect(expected.count > 1000)
        for (number, text) in patterns.enumerated() {
            let pattern = try #require(NamePattern(text.utf8))
            for path in Set(paths) {
                let isGits = expected.contains("\(path) p\(number)")
                #expect(pattern.matches(path: components(path)) == isGits, "\(text) on \(path)")
            }
        }
    }

    @Test("matching ends soon with any pattern") func patternsEnd() throws {
        let text = Array(String(repeating: "a", count: 250).utf8)
        let stars = String(repeating: "*a", count: 60) + "b"
        #expect(try #require(NamePattern(stars.utf8)).matches(text) == false)
        let deep = String(repeating: "**/a*/", count: 40) + "b"
        let path = [Name](repeating: Name("aa"), count: 200)
        #expect(try #require(NamePattern(deep.utf8)).matches(path: path) == false)
    }
}
