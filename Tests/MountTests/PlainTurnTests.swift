import Control
import Foundation
import Glibc
import Support
import Testing

/// Programs that know nothing of coordination are coordinated all the same.
@Suite("Plain programs are coordinated", .serialized)
struct PlainTurnTests {
    /// Rewrites a document in place, or reads it and prints how often it saw two writers at once.
    private static let rewriting = """
        import os, sys
        path, role, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
        mixed = 0
        for number in range(times):
            file = os.open(path, os.O_RDWR if role == "write" else os.O_RDONLY)
            if role == "write":
                letter = bytes([65 + (number + os.getpid()) % 26])
                for piece in range(16): os.pwrite(file, letter * 4096, piece * 4096)
            else:
                seen = b"".join(os.pread(file, 4096, piece * 4096) for piece in range(16))
                mixed += len(set(seen)) != 1
            os.close(file)
        print(mixed)
        """

    private func start(_ script: String, _ arguments: [String] = [], in directory: String) throws
        -> (ChildProcess, FileHandle)
    {
        let output = try Command.scratch()
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let child = try ChildProcess(
            arguments.isEmpty ? "sh" : "python3",
            arguments.isEmpty ? ["-ec", script] : ["-c", script] + arguments, directory: directory,
            input: null, output: output.fileDescriptor, errors: output.fileDescriptor)
        return (child, output)
    }

    private func said(_ output: FileHandle) throws -> String {
        try output.seek(toOffset: 0)
        return String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
    }

    @Test("two programs rewrite a document in place, others read it: none sees a mixture")
    func rewriting() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/document"
            try Data(repeating: 65, count: 65536).write(to: URL(fileURLWithPath: path))
            var running: [(ChildProcess, FileHandle)] = []
            for role in ["write", "write"] + Array(repeating: "read", count: 4) {
                running.append(
                    try start(Self.rewriting, [path, role, "100"], in: volume.path))
            }
            for (child, output) in running {
                #expect(try child.waitForEnd(seconds: 120) == 0)
                #expect(try said(output) == "0\n")
            }
        }
    }

    @Test("shell commands at once: none sees a half-written document")
    func coordinated() throws {
        try MountedVolume.with { volume in
            try Data("aaaaaaaa".utf8).write(to: URL(fileURLWithPath: "\(volume.path)/document"))
            let write = """
                for i in $(seq 15); do
                    '\(Programs.fsctl)' coordinate write document -- \\
                        sh -c 'printf LLLL > document; sleep 0.01; printf LLLL >> document'
                done
                """
            let read = """
                for i in $(seq 15); do
                    '\(Programs.fsctl)' coordinate read document -- cat document; echo
                done
                """
            var running = try ["b", "c"].map { letter in
                try start(write.replacingOccurrences(of: "L", with: letter), in: volume.path)
            }
            for _ in 0..<3 { running.append(try start(read, in: volume.path)) }
            for (child, output) in running {
                let status = try child.waitForEnd(seconds: 60)
                let words = try said(output)
                #expect(status == 0, "\(words)")
                let seen = Set(words.split(separator: "\n"))
                #expect(seen.isSubset(of: ["aaaaaaaa", "bbbbbbbb", "cccccccc"]), "\(seen)")
            }
        }
    }

    @Test("a file that is left open delays one writer for a moment, and the next not at all")
    func leftOpen() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/long.txt"
            try Data("as long as a day\n".utf8).write(to: URL(fileURLWithPath: path))
            let (reader, _) = try start("exec 3<long.txt; echo; sleep 600", in: volume.path)
            defer { reader.killGroup() }
            try wait(for: "the file to be open") { try isOpen(path, in: reader.pid) ? true : nil }
            try Command("sh", "-c", "echo first > '\(path)'").succeed()
            let before = volume.locks(path)
            #expect(before.contains { $0.process == reader.pid && $0.state == .granted })
            // If it was waited for again, its lease would lapse only after five seconds.
            var second = Command("sh", "-c", "echo second > '\(path)'")
            second.timeoutSeconds = 4
            try second.succeed()
            #expect(!reader.hasEnded())
        }
    }

    @Test("an open for reading succeeds although its document is replaced twice while it waits")
    func replacedTwice() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/document"
            for name in ["document", "second", "third"] {
                try Data("\(name)\n".utf8).write(to: URL(filePath: "\(volume.path)/\(name)"))
            }
            let holders = try ["document", "second"].map {
                try start("exec 3<>\($0); echo; sleep 600", in: volume.path).0
            }
            defer { for holder in holders { holder.killGroup() } }
            for (holder, name) in zip(holders, ["document", "second"]) {
                try wait(for: "\(name) to be open") {
                    try isOpen("\(volume.path)/\(name)", in: holder.pid) ? true : nil
                }
            }
            let (reader, output) = try start("cat document", in: volume.path)
            for (holder, name) in zip(holders, ["second", "third"]) {
                try wait(for: "the reader to wait") {
                    volume.locks(path).contains { $0.state == .waiting } ? true : nil
                }
                #expect(rename("\(volume.path)/\(name)", path) == 0)
                holder.killGroup()
            }
            let status = try reader.waitForEnd(seconds: 20)
            let words = try said(output)
            #expect(status == 0 && ["second\n", "third\n"].contains(words), "\(words)")
        }
    }

    private func isOpen(_ path: String, in process: pid_t) throws -> Bool {
        let directory = "/proc/\(process)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: directory).contains { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\(name)"))
                == path
        }
    }

    @Test("five processes on one SQLite database wait for its own locks, not for leases")
    func databases() throws {
        try MountedVolume.with { volume in
            let insert = """
                for i in $(seq 20); do
                    sqlite3 -cmd '.timeout 60000' data.db 'INSERT INTO t VALUES (1)'
                done
                """
            try Command("sqlite3", "\(volume.path)/data.db", "CREATE TABLE t (n)").succeed()
            // One connection stays open, between its transactions.
            let (idle, _) = try start(
                "(echo 'SELECT 1;'; sleep 600) | sqlite3 data.db", in: volume.path)
            defer { idle.killGroup() }
            let running = try (0..<5).map { _ in try start(insert, in: volume.path) }
            for (child, output) in running {
                let status = try child.waitForEnd(seconds: 60)
                let words = try said(output)
                #expect(status == 0, "\(words)")
            }
            let count = try Command(
                "sqlite3", "\(volume.path)/data.db",
                "SELECT count(*) FROM t; PRAGMA integrity_check"
            ).succeed()
            #expect(count == "100\nok\n")
        }
    }

    @Test(
        "a plain save and a coordinated save of the same document both succeed and are kept",
        arguments: ["rm document", "mv document elsewhere", "echo plain > document"])
    func meeting(_ command: String) throws {
        for startsFirst in [true, false] {
            try MountedVolume.with { volume in
                let path = "\(volume.path)/document"
                try Data("old\n".utf8).write(to: URL(fileURLWithPath: path))
                try volume.waitForDisk()
                let save = """
                    exec '\(Programs.fsctl)' coordinate write document -- \
                    sh -c 'echo coordinated > .draft.tmp; sleep 0.1; mv .draft.tmp document'
                    """
                let first = try start(startsFirst ? save : command, in: volume.path)
                if startsFirst {
                    try wait(for: "the turn") {
                        volume.locks(path).contains { $0.kind == .claim } ? true : nil
                    }
                }
                let second = try start(startsFirst ? command : save, in: volume.path)
                for (child, output) in [first, second] {
                    let status = try child.waitForEnd(seconds: 10)
                    let words = try said(output)
                    #expect(status == 0, "\(words)")
                }
                try volume.waitForDisk()
                let kept = try reachableContents(in: volume.path).map {
                    String(decoding: $0, as: UTF8.self)
                }
                #expect(kept.contains("coordinated\n"), "\(command): \(kept)")
                #expect(kept.contains(command.hasPrefix("echo") ? "plain\n" : "old\n"))
            }
        }
    }

    @Test(
        "waiting opens hold no thread, and end by Ctrl-C or with the mount",
        arguments: Transport.allCases)
    func waiting(_ transport: Transport) throws {
        try transport.with { volume in
            let path = "\(volume.path)/document"
            try Data("x".utf8).write(to: URL(fileURLWithPath: path))
            try Data("y".utf8).write(to: URL(fileURLWithPath: "\(volume.path)/other"))
            let (holder, _) = try start(
                "exec '\(Programs.fsctl)' coordinate write document -- sleep 600", in: volume.path)
            defer { holder.killGroup() }
            try wait(for: "the turn") {
                volume.locks(path).contains { $0.kind == .claim } ? true : nil
            }
            let threads = try volume.threads
            let many = """
                import os, sys, threading
                threading.stack_size(65536)
                failed = []
                def wait():
                    try: os.close(os.open(sys.argv[1], os.O_RDONLY))
                    except OSError as error: failed.append(error.errno)
                waiting = [threading.Thread(target=wait) for _ in range(1000)]
                for one in waiting: one.start()
                for one in waiting: one.join()
                print(len(failed), set(failed) or "")
                """
            let (crowd, output) = try start(many, [path], in: volume.path)
            defer { crowd.killGroup() }
            try wait(seconds: 60, for: "a thousand to wait") {
                volume.locks(path).count { $0.state == .waiting } == 1000 ? true : nil
            }
            let threadsNow = try volume.threads
            #expect(threadsNow <= threads + 2)
            #expect(try String(contentsOfFile: "\(volume.path)/other", encoding: .utf8) == "y")
            let interrupted = try Command(
                "timeout", "--signal=INT", "0.2", "cat", path
            ).run()
            #expect(interrupted.status == 124)
            #expect(volume.locks(path).count { $0.state == .waiting } == 1000)
            holder.killGroup()
            #expect(try crowd.waitForEnd(seconds: 60) == 0)
            #expect(try said(output) == "0 \n")

            let (again, _) = try start(
                "exec '\(Programs.fsctl)' coordinate write document -- sleep 600", in: volume.path)
            defer { again.killGroup() }
            try wait(for: "the turn") {
                volume.locks(path).contains { $0.kind == .claim } ? true : nil
            }
            let (cat, words) = try start("exec cat '\(path)'", in: "/")
            try wait(for: "one more to wait") {
                volume.locks(path).contains { $0.state == .waiting } ? true : nil
            }
            try volume.terminate()
            #expect(try cat.waitForEnd(seconds: 20) == 1)
            #expect(try said(words).contains("abort"))
        }
    }
}

extension MountedVolume {
    /// The output of `fsctl locks` for a path.
    func locks(_ path: String) -> [LocksReport.Turn] {
        guard let client = try? ControlClient(socket: socket) else { return [] }
        var request = Request(.locks, path: nil)
        request.path = RawText(String(path.dropFirst(self.path.count + 1)))
        return (try? client.ask(request, as: LocksReport.self))?.turns ?? []
    }

    private var socket: String { (try? MountedPath(FilePath(path)).socket) ?? "" }

    var threads: Int {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task").count
        }
    }
}
