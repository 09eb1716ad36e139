import Foundation
import Glibc
import Support
import Testing

/// Programs that replace a whole document without having seen what another program saved in the
/// meantime.
@Suite("Stale saves by plain programs") struct StaleSaveTests {
    private let old = "one\ntwo\nthree\nfour\n"

    private func text(_ path: String) throws -> String {
        try String(contentsOfFile: path, encoding: .utf8)
    }

    private func conflicts(_ path: String) throws -> [String] {
        let document = try History.of(path)
        let texts = try History.texts(of: path)
        return zip(document.versions, texts).filter { $0.0.kind == "conflict" }.map(\.1)
    }

    private func with(_ body: (MountedVolume, String) throws -> Void) throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a.txt"
            try Data(old.utf8).write(to: URL(filePath: path))
            try body(volume, path)
        }
    }

    /// Runs a script as another program.
    private func run(_ script: String, _ path: String) throws {
        try Command("bash", "-ec", script.replacing("PATH", with: path)).succeed()
    }

    private static let patterns = SavePattern.allCases.map { "\($0)" }

    @Test(
        "an editor's buffer over a formatter's output",
        arguments: patterns,
        ["sed -i s/one/formatted/ PATH", "sed s/one/formatted/ PATH > PATH.x; cat PATH.x > PATH"])
    func editor(_ pattern: String, formatter: String) throws {
        let pattern = SavePattern.allCases.first { "\($0)" == pattern }!
        try with { _, path in
            #expect(try text(path) == old)
            try run(formatter, path)
            let mine = old.replacing("four", with: "mine")
            try pattern.save(Data(mine.utf8), to: path, synced: false)
            let theirs = old.replacing("one", with: "formatted")
            #expect(try conflicts(path) == [theirs])
            // Nothing is merged automatically; one command merges both.
            #expect(try text(path) == mine)
            try Programs.fsctl("merge", path).succeed()
            #expect(try text(path) == theirs.replacing("four", with: "mine"))
            #expect(try conflicts(path).isEmpty)
            // It has seen its own save and what it has read again.
            for round in 0..<3 {
                try pattern.save(Data("own \(round)".utf8), to: path, synced: false)
            }
            #expect(try conflicts(path).isEmpty)
        }
    }

    @Test("two agents on one file, whose whole-file writes are based on old reads")
    func agents() throws {
        let agents = try [PlainProgram(), PlainProgram()]
        try with { volume, path in
            for agent in agents { try agent.tell("read", path) }
            try volume.waitForDisk()
            let watcher = try Beside("watch", volume.path)
            try wait(for: "the watcher to hear") {
                try Command("touch", "\(volume.path)/b").succeed()
                return watcher.said.contains("b") ? true : nil
            }
            try agents[0].tell("write", path, "first\n")
            #expect(try conflicts(path).isEmpty)
            try agents[1].tell("replace", path, "second\n")
            try watcher.wait(for: "in conflict with the current one of a.txt")
            #expect(try conflicts(path) == ["first\n"])
            try agents[0].tell("write", path, "third\n")
            #expect(try conflicts(path) == ["first\n", "second\n"])
            #expect(try text(path) == "third\n")
            try agents[1].tell("read", path)
            try agents[1].tell("write", path, "fourth\n")
            #expect(try conflicts(path) == ["first\n", "second\n"])
            try Programs.fsctl("resolve", "--keep", "current", path).succeed()
            #expect(try conflicts(path).isEmpty)
        }
    }

    @Test("git checkout under an open editor, and over what an editor saved")
    func git() throws {
        let editor = try PlainProgram()
        try with { _, path in
            let git = "cd $(dirname PATH); git -c user.name=a -c user.email=a@b"
            try run("\(git) init -q; git add a.txt; \(git) commit -qm 1", path)
            try run("\(git) checkout -qb other; echo other > PATH; \(git) commit -qam 2", path)
            try run("\(git) checkout -q -", path)
            try editor.tell("read", path)
            try run("\(git) checkout -q other", path)
            try editor.tell("write", path, "mine\n")
            #expect(try conflicts(path) == ["other\n"])
            #expect(try text(path) == "mine\n")
            // Git does not read what it overwrites.
            try run("\(git) checkout -qf other", path)
            #expect(try conflicts(path) == ["other\n"])
        }
    }

    @Test("a build script rewrites a configuration that was changed since the script began")
    func build() throws {
        try with { _, path in
            let script = """
                mapfile -t lines < PATH
                bash -c 'echo port=80 >> PATH'
                printf '%s\\n' built "${lines[@]}" > PATH
                """
            try run(script, path)
            #expect(try conflicts(path) == [old + "port=80\n"])
            try Programs.fsctl("merge", path).succeed()
            #expect(try text(path) == "built\n" + old + "port=80\n")
        }
    }

    @Test("writes in place, appends, saves without reading and moves of drafts are not stale")
    func never() throws {
        let program = try PlainProgram()
        try with { _, path in
            try program.tell("read", path)
            for verb in ["append", "patch"] {
                try run("echo other >> PATH", path)
                try program.tell(verb, path, "x")
            }
            try run("echo other > PATH; touch -d yesterday PATH; chmod 600 PATH", path)
            let other = try PlainProgram()
            try other.tell("write", path, "never read")
            try run("echo draft > PATH.new; mv PATH.new PATH", path)
            #expect(try conflicts(path).isEmpty)
        }
    }

    @Test("times and modes are no save, and equal contents no conflict") func times() throws {
        let program = try PlainProgram()
        try with { _, path in
            try program.tell("read", path)
            try run("touch PATH; touch -d yesterday PATH; chmod 600 PATH", path)
            try program.tell("write", path, "mine\n")
            try run("printf 'same\\n' > PATH", path)
            try program.tell("replace", path, "same\n")
            #expect(try conflicts(path).isEmpty)
        }
    }

    @Test(
        "the rules decide about the overwritten contents",
        arguments: [("stale=history", 0), ("stale=conflict", 1), ("stale=merge", 0)])
    func rules(_ rule: String, count: Int) throws {
        let program = try PlainProgram()
        try with { volume, path in
            try Data("*.txt \(rule)\n".utf8)
                .write(to: URL(filePath: "\(volume.path)/.concordattributes"))
            try program.tell("read", path)
            try volume.waitForDisk()
            try run("sed -i s/one/1/ PATH", path)
            try program.tell("replace", path, old.replacing("four", with: "4"))
            let both = old.replacing("one", with: "1").replacing("four", with: "4")
            if rule == "stale=merge" {
                try wait(for: "a merge") { try text(path) == both ? true : nil }
            }
            try volume.waitForDisk()
            #expect(try conflicts(path).count == count)
            #expect((try text(path) == both) == (rule == "stale=merge"))
            let kept = try History.texts(of: path)
            #expect(kept.contains(old.replacing("one", with: "1")))
        }
    }

    @Test("20 programs save one after the other: with reading never stale, without always")
    func load() throws {
        try StaleLoad(rounds: 5, reads: true, seed: 1).run()
        try StaleLoad(rounds: 3, reads: false, seed: 2).run()
    }

    @Test("a daemon that is killed after a stale save knows it afterwards") func killed() throws {
        try with { volume, path in
            #expect(try text(path) == old)
            try run("echo theirs > PATH", path)
            try SavePattern.replace.save(Data("mine".utf8), to: path, synced: false)
            try volume.kill9()
            try volume.mount()
            #expect(try conflicts(path) == ["theirs\n"])
        }
    }
}
