import Foundation
import Model
import Support
import Testing

@testable import Merge

@Suite("Merging by lines") struct TextMergeTests {
    let bench: MergeBench

    init() throws { bench = try MergeBench(rules: "*.list merge=union\n") }

    @Test("mustard and ketchup both get on the list") func list() throws {
        let outcome = try bench.merge(
            "shop.list", "milk\n", "milk\nmustard\n", "milk\nketchup\n")
        #expect(outcome.text == "milk\nmustard\nketchup\n")
        #expect(
            try bench.merge("shop.list", "milk", "milk\nmustard", "milk\nketchup").text
                == "milk\nmustard\nketchup")
        #expect(try bench.merge("shop.txt", "m\n", "m\nmustard\n", "m\nketchup\n").isConflict)
        #expect(bench.left.isEmpty)
    }

    @Test(
        "where both sides only inserted items, both insertions are kept",
        arguments: [
            // A list to which both have appended, and into which both have inserted.
            (
                "a.md", "- m\n", "- m\n- mustard\n", "- m\n- ketchup\n",
                "- m\n- mustard\n- ketchup\n"
            ),
            ("a.md", "# L\n- m\n", "# L\n1. x\n- m\n", "# L\n* y\n- m\n", "# L\n1. x\n* y\n- m\n"),
            ("a", "", "- [ ] a\r\n", "  • b\r\n", "- [ ] a\r\n  • b\r\n"),
            // An item that both have added is there once.
            ("a.md", "- m\n", "- m\n- x\n- y\n", "- m\n- y\n- z\n", "- m\n- x\n- y\n- z\n"),
            // Rows of a table, and all lines where a rule says so.
            ("a.csv", "n,p\n", "n,p\na,1\n", "n,p\nb,2\n", "n,p\na,1\nb,2\n"),
            ("a.lines", "m", "m\na", "m\nb", "m\na\nb"),
            // Edits elsewhere are merged as usual.
            (
                "a.md", "- a\n\n- b\n", "- A\n\n- b\n- c\n", "- a\n\n- b\n- d\n",
                "- A\n\n- b\n- c\n- d\n"
            ),
        ])
    func items(path: String, base: String, ours: String, theirs: String, both: String) throws {
        var bench = bench
        bench.rules = MergeRules(file: Array("*.lines merge=list\n".utf8))
        #expect(try bench.merge(path, base, ours, theirs).text == both)
    }

    @Test(
        "what is no insertion of items is in conflict",
        arguments: [
            ("a.md", "m\n", "m\nplain\n", "m\n- item\n"),
            ("a.md", "m\n", "m\n-5\n", "m\n-6\n"), ("a.md", "m\n", "m\n---\n", "m\n- \n"),
            // One side changed an item, or removed one.
            ("a.md", "- m\n", "- M\n- x\n", "- m\n- y\n"), ("a.md", "- m\n", "- x\n", "- m\n- y\n"),
            ("a.csv", "a,1\n", "a,2\n", "a,3\n"), ("a.lines", "m\n", "n\n", "o\n"),
        ])
    func noItems(path: String, base: String, ours: String, theirs: String) throws {
        var bench = bench
        bench.rules = MergeRules(file: Array("*.lines merge=list\n".utf8))
        #expect(try bench.merge(path, base, ours, theirs).isConflict)
    }

    @Test("edits of different lines are both kept") func clean() throws {
        let base = (1...9).map { "line \($0)\n" }.joined()
        let outcome = try bench.merge(
            "a.txt", base, base.replacing("line 2", with: "second"),
            base.replacing("line 8", with: "eighth"))
        #expect(
            outcome.text
                == base.replacing("line 2", with: "second").replacing("line 8", with: "eighth"))
        #expect(outcome == .clean(Array((outcome.text ?? "").utf8), by: .driver(.text)))
    }

    @Test("a trivial merge needs no rule, no text and no git") func trivial() throws {
        var bench = bench
        bench.tools.git = "/nowhere/git"
        bench.rules = MergeRules(file: Array("* -merge automerge=off".utf8))
        let (a, b): ([UInt8], [UInt8]) = ([0, 255, 1], [7])
        #expect(try bench.merge("x", a, b, b) == .clean(b, by: .same))
        #expect(try bench.merge("x", nil, b, b) == .clean(b, by: .same))
        #expect(try bench.merge("x", a, a, b) == .clean(b, by: .theirs))
        #expect(try bench.merge("x", a, b, a) == .clean(b, by: .ours))
        #expect(try bench.merge("x", nil, a, b).isUnmergeable)
    }

    @Test(
        "line ends and other bytes are preserved",
        arguments: [
            (
                "1\r\n2\r\n3\r\n4\r\n5\r\n", "1\r\nX\r\n3\r\n4\r\n5\r\n",
                "1\r\n2\r\n3\r\n4\r\nY\r\n",
                "1\r\nX\r\n3\r\n4\r\nY\r\n"
            ),
            ("1\n2\n3\n4\n5", "X\n2\n3\n4\n5", "1\n2\n3\n4\nY", "X\n2\n3\n4\nY"),
            (
                "\u{feff}1\n2\n3\n4\n", "\u{feff}1\n2\n3\nX\n", "\u{feff}Y\n2\n3\n4\n",
                "\u{feff}Y\n2\n3\nX\n"
            ),
            ("e\u{301}\n2\n3\n", "e\u{301}\n2\nX\n", "\u{e9}\n2\n3\n", "\u{e9}\n2\nX\n"),
            ("1\n\n\n\t2 \n3\n", "1\n\n\n\t2 \nX\n", "Y\n\n\n\t2 \n3\n", "Y\n\n\n\t2 \nX\n"),
        ])
    func exact(base: String, ours: String, theirs: String, result: String) throws {
        let text = try #require(try bench.merge("a.txt", base, ours, theirs).text)
        #expect(Array(text.utf8) == Array(result.utf8))
    }

    @Test("binary contents are never merged, whatever a rule says") func binary() throws {
        let lines = Array("1\n2\n3\n4\n5\n".utf8)
        for bad: [UInt8] in [[0], [0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xc0, 0x80]] {
            for path in ["a.txt", "a.list", "a.json"] {
                let outcome = try bench.merge(path, lines + bad, [0x31] + lines + bad, lines)
                #expect(outcome.isUnmergeable, "\(bad)")
                #expect(outcome.reason?.contains("UTF-8") == true)
            }
        }
    }

    @Test("existing conflict markers stay, and none is added") func markers() throws {
        let mark = "<<<<<<< x\n=======\n>>>>>>> y\n"
        let base = mark + "1\n2\n3\n4\n"
        let outcome = try bench.merge("a.txt", base, base + "5\n", "0\n" + base)
        #expect(outcome.text == "0\n" + base + "5\n")
        let three = MergeTriple(base: [], ours: Array(mark.utf8), theirs: Array("a\n".utf8))
        #expect(!three.addsMarkers(Array(mark.utf8)))
        for added in ["<<<<<<< z\n", "||||||| base\r\n", ">>>>>>>\n", "<<<<<<<<<<< x"] {
            #expect(three.addsMarkers(Array((mark + added).utf8)), "\(added)")
        }
    }

    @Test("without git nothing is merged by lines, and the reason says so") func noGit() throws {
        var bench = bench
        bench.tools.git = "git-that-nobody-has"
        for path in ["a.txt", "a.json", "a.list"] {
            let outcome = try bench.merge(path, "1", "2", "3")
            #expect(outcome.isUnmergeable)
            #expect(outcome.reason?.contains("git is not installed") == true)
        }
        #expect(bench.left.isEmpty)
    }

    @Test("rules turn merging off or ask; a user overrules both") func automerge() throws {
        let bench = try MergeBench(rules: "off automerge=off\nask automerge=ask\nbin -merge\n")
        let three = ("1\n2\n3\n4\n", "X\n2\n3\n4\n", "1\n2\n3\nY\n")
        func outcome(_ path: String, isAsked: Bool) throws -> MergeOutcome {
            try bench.merge(path, three.0, three.1, three.2, isAsked: isAsked)
        }
        #expect(try outcome("off", isAsked: false).reason?.contains("line 1") == true)
        #expect(try outcome("ask", isAsked: false) == .ask)
        #expect(try outcome("bin", isAsked: true).reason?.contains("line 3") == true)
        for path in ["off", "ask"] {
            #expect(try outcome(path, isAsked: true).text == "X\n2\n3\nY\n")
        }
    }

    @Test("more than 8 MiB is not merged by lines") func large() throws {
        let large = [UInt8](repeating: 0x61, count: Merger.textMax)
        let outcome = try bench.merge("a.txt", large, large + [0x0a], [0x0a] + large)
        #expect(outcome.reason?.contains("8 MiB") == true)
    }

    @Test("settings and attributes of this machine's git do not apply") func ownSettings() throws {
        let home = try TemporaryDirectory("home")
        try home.write("[core]\n\tattributesFile = \(home.path)/all\n", to: ".gitconfig")
        try home.write("* -merge\n", to: "all")
        let before = getenv("GIT_CONFIG_GLOBAL").map { String(cString: $0) }
        setenv("GIT_CONFIG_GLOBAL", home.path + "/.gitconfig", 1)
        defer {
            if let before {
                setenv("GIT_CONFIG_GLOBAL", before, 1)
            } else {
                unsetenv("GIT_CONFIG_GLOBAL")
            }
        }
        #expect(try bench.merge("a", "1\n2\n3\n", "X\n2\n3\n", "1\n2\nY\n").text == "X\n2\nY\n")
    }

    @Test("contents may be files; the error names a missing one") func files() throws {
        let path = bench.directory.path
        try bench.directory.write("1\n2\n3\n", to: "base")
        try bench.directory.write("X\n2\n3\n", to: "ours")
        let input = MergeInput(
            path: [Name("a")], base: .file(path + "/base"), ours: .file(path + "/ours"),
            theirs: .bytes(Array("1\n2\nY\n".utf8)))
        #expect(try bench.merger.merge(input).text == "X\n2\nY\n")
        var gone = input
        gone.ours = .file(path + "/gone")
        let error = #expect(throws: VolumeError.self) { try bench.merger.merge(gone) }
        #expect(error?.message.contains("/gone") == true)
    }

    @Test("the explanation names the rule, the driver and the places") func explain() throws {
        let bench = try MergeBench(rules: "*.md merge=text automerge=ask\nx eol=lf\n")
        let input = bench.input(
            "a.md", Array("1\n2\n3\n4\n5\n6\n".utf8), Array("X\n2\n3\n4\n5\nX\n".utf8),
            Array("Y\n2\n3\n4\n5\nZ\n".utf8), isAsked: true)
        let said = try bench.merger.explain(input).sentences.joined(separator: "\n")
        let words = ["line 1 says merge=text", "ask; but you asked", "2 places", "“X”", "eol=lf"]
        for word in words {
            #expect(said.contains(word), "\(word) in: \(said)")
        }
        let plain = try self.bench.merger.explain(
            self.bench.input("b.txt", Array("1".utf8), Array("2".utf8), Array("1".utf8)))
        #expect(plain.sentences.first?.hasPrefix("No line of .concordattributes") == true)
        #expect(plain.sentences.last == "Only the current version changed anything: it stays.")
    }
}
