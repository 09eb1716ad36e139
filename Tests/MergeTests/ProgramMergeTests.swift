import Foundation
import Model
import Support
import Testing

@testable import Merge

@Suite("Merging by programs of this machine") struct ProgramMergeTests {
    /// A merger whose rules use the program `mine` for everything; `mine` runs the given script.
    private func bench(_ script: String, words: String = "%O %A %B %P", more: String = "") throws
        -> MergeBench
    {
        var bench = try MergeBench(rules: "* merge=mine\n")
        let program = try bench.directory.write("#!/bin/sh\n" + script + "\n", to: "program")
        chmod(program, 0o755)
        let file = try bench.directory.write(
            "# ours\n[mine]\n\tcommand = '\(program)' \(words)\n\(more)\n", to: "merge")
        chmod(file, 0o600)
        bench.tools = MergeTools(file: file)
        #expect(bench.tools.problems.isEmpty, "\(bench.tools.problems)")
        return bench
    }

    private func outcome(_ bench: MergeBench, path: String = "a/b.docx") throws -> MergeOutcome {
        let outcome = try bench.merge(path, [0, 1], [0, 2], [0, 3])
        #expect(bench.left.isEmpty)
        return outcome
    }

    @Test("the result is what the program leaves in %A") func clean() throws {
        let bench = try bench("cat \"$1\" \"$3\" > all; printf '%s' \"$4\" >> all; mv all \"$2\"")
        #expect(
            try outcome(bench)
                == .clean([0, 1, 0, 3] + "a/b.docx".utf8, by: .driver(.program("mine"))))
        #expect(
            try outcome(bench, path: "-rf")
                == .clean([0, 1, 0, 3] + "./-rf".utf8, by: .driver(.program("mine"))))
    }

    @Test("the document's name is not passed through a shell") func names() throws {
        let bench = try bench("printf '%s' \"$1\" > \"$2\"", words: "%P %A")
        let path = "$(touch x); `id` \"'&.txt"
        #expect(
            try outcome(bench, path: path)
                == .clean(Array(path.utf8), by: .driver(.program("mine"))))
    }

    @Test("the program gets the document's extension and works in a directory of its own")
    func place() throws {
        let bench = try bench("echo \"$2 $(pwd) $(env | cut -d= -f1 | sort | xargs)\" > $2")
        let said = try #require(try outcome(bench).text)
        #expect(said.hasPrefix("ours.docx \(bench.scratch)/merge-"))
        #expect(said.hasSuffix(" HOME LC_ALL PATH PWD TMPDIR TZ\n"), "\(said)")
    }

    @Test(
        "each way in which a program ends has its outcome",
        arguments: [
            ("echo too hard >&2; exit 1", true, "ended with 1 too hard"),
            ("exit 129", false, "ended with 129"), ("kill -SEGV $$", false, "signal 11"),
            ("rm \"$2\"", false, "left no file"), ("ln -sf /etc/passwd \"$2\"", false, "no file"),
            ("echo '<<<<<<< ours' > \"$2\"", false, "conflict markers"),
        ])
    func endings(script: String, isConflict: Bool, word: String) throws {
        let outcome = try outcome(try bench(script))
        #expect(outcome.isConflict == isConflict && outcome.isUnmergeable == !isConflict)
        #expect(outcome.reason?.contains(word) == true, "\(outcome)")
    }

    @Test("a program that never ends is killed with all processes that it started") func endless()
        throws
    {
        let bench = try bench(
            "sleep 1000 & echo $! > \"$TMPDIR/../../child\"; wait",
            more: "seconds = 1")
        #expect(try outcome(bench).reason?.contains("longer than 1 seconds") == true)
        let text = try String(contentsOfFile: bench.directory.path + "/child", encoding: .utf8)
        let child = try #require(pid_t(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        // The process is killed; its new parent may take a moment to wait for it.
        try wait(for: "the child's end") { () -> Bool? in
            let status = try? String(contentsOfFile: "/proc/\(child)/stat", encoding: .utf8)
            return status.map { $0.contains(") Z ") } ?? true ? true : nil
        }
    }

    @Test("a program that uses too much time, memory or disk is stopped") func greedy() throws {
        let spin = try outcome(try bench("while :; do :; done", more: "seconds = 1"))
        #expect(spin.reason?.contains("1 seconds") == true, "\(spin)")
        let python = """
            exec python3 - "$2" <<'end'
            import sys
            try: said = len(bytearray(300 << 20))
            except MemoryError: said = "no memory"
            open(sys.argv[1], "w").write(str(said))
            end
            """
        #expect(try outcome(try bench(python, more: "memory = 200")).text == "no memory")
        #expect(try outcome(try bench(python, more: "memory = 2000")).text == "314572800")
        let disk = try outcome(try bench("truncate -s 257M \"$2\""))
        #expect(disk.reason?.contains("153") == true, "\(disk)")
    }

    @Test("a program has no terminal and none of our descriptors") func isolation() throws {
        let bench = try bench(
            "(: > /dev/tty) 2>/dev/null && t=tty; echo \"$t\" $(ls /proc/self/fd | xargs) > $2")
        let file = try #require(FileHandle(forReadingAtPath: bench.directory.path + "/program"))
        defer { try? file.close() }
        // Descriptor 3 is that of ls.
        #expect(try outcome(bench).text == " 0 1 2 3\n")
    }

    @Test("a synchronized rule cannot name a command; an unknown name is reported") func unknown()
        throws
    {
        let bench = try MergeBench(rules: "* merge=sh\n")
        #expect(try outcome(bench).reason?.contains("no [sh] is defined") == true)
        var gone = bench
        let file = try bench.directory.write("[sh]\ncommand = nobody-has-this %A\n", to: "merge")
        chmod(file, 0o600)
        gone.tools = MergeTools(file: file)
        #expect(try outcome(gone).reason?.contains("not on this machine") == true)
    }

    @Test(
        "invalid lines of the machine's file are reported",
        arguments: [
            ("[a]\ncommand = x %Q", "%Q"), ("[a]\ncommand = sh -c 'x %P'", "%P must be a word"),
            ("[a]\ncommand = 'x", "quotation"), ("[a]\ncommand =", "empty"),
            ("command = x", "no [NAME]"), ("[a\ncommand = x", "]"), ("[text]", "'text'"),
            ("[a]\ncommand = x\nseconds = 0", "3600"), ("[a]\ncommand = x\nmemory = lots", "MiB"),
            ("[a]\ncommand = x\nshell = sh", "'shell'"), ("[a]\nwords", "NAME = VALUE"),
            ("[a]", "no command"),
        ])
    func flaws(text: String, word: String) throws {
        let bench = try MergeBench()
        let file = try bench.directory.write(text, to: "merge")
        chmod(file, 0o600)
        let problems = MergeTools(file: file).problems
        #expect(problems.contains { $0.contains(word) && $0.contains(file) }, "\(problems)")
    }

    @Test("a file that others may write is ignored; a missing file is no problem") func publicFile()
        throws
    {
        let bench = try MergeBench()
        let file = try bench.directory.write("[a]\ncommand = true\n", to: "merge")
        chmod(file, 0o622)
        let tools = MergeTools(file: file)
        #expect(tools.programs.isEmpty && tools.problems.count == 1)
        chmod(file, 0o644)
        #expect(MergeTools(file: file).programs.count == 1)
        #expect(MergeTools(file: file + "-gone").problems.isEmpty)
    }
}
