import Foundation
import Glibc

/// A program that commits rows to two SQLite databases, with a write-ahead log and with a rollback
/// journal, and appends large synced records to a third file. After each it says what is now on the
/// disk.
final class DatabaseLoad {
    /// The numbers that are on the disk, by the file's name.
    typealias Promises = [String: Set<Int>]

    private static let record = 300_000
    private static let program = """
        import os, sqlite3, sys
        os.chdir(sys.argv[1])
        databases = {}
        for name, mode in ("wal.db", "wal"), ("delete.db", "delete"):
            database = databases[name] = sqlite3.connect(name, isolation_level=None)
            database.execute("PRAGMA journal_mode=" + mode)
            # FULL does not sync the removal of a rollback journal, which commits a transaction.
            database.execute("PRAGMA synchronous=EXTRA")
            database.execute("CREATE TABLE t (n INTEGER, filler BLOB)")
        log = open("log", "ab", buffering=0)
        for number in range(1_000_000):
            for name, database in databases.items():
                database.execute("INSERT INTO t VALUES (?, randomblob(?))", (number, number % 9000))
                os.write(1, b"%s %d\\n" % (name.encode(), number))
            # A write can be short on a disk that is nearly full, so the file stays small.
            if number >= 40: continue
            bytes = number.to_bytes(4, "big") * (\(record) // 4)
            while bytes: bytes = bytes[log.write(bytes):]
            os.fsync(log)
            os.write(1, b"log %d\\n" % number)
        """

    private let directory: String
    private let child: ChildProcess
    private let output: FileHandle

    init(in directory: String) throws {
        self.directory = directory
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        output = try Command.scratch()
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer { close(null) }
        child = try ChildProcess(
            "python3", ["-c", Self.program, directory], input: null,
            output: output.fileDescriptor, errors: STDERR_FILENO)
    }

    /// Ends the program in the middle of what it does, and lets SQLite recover the databases.
    func stop() throws {
        guard !child.hasEnded() else { throw SupportError("the program with databases has ended") }
        child.killGroup()
        let faults = try Self.faults(in: directory, promised: promised())
        guard faults.isEmpty else { throw SupportError("after a kill -9: \(faults)") }
    }

    /// What has been said so far.
    func promised() throws -> Promises {
        // The program shares the file offset of its output with this process, so the output is
        // read without moving the offset.
        var status = stat()
        guard fstat(output.fileDescriptor, &status) == 0 else { throw SupportError("no output") }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = pread(output.fileDescriptor, &bytes, bytes.count, 0)
        let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        var promises: Promises = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count == 2, let number = Int(words[1]) else { continue }
            promises[String(words[0]), default: []].insert(number)
        }
        return promises
    }

    /// The promises that the files in the directory do not keep.
    static func faults(in directory: String, promised: Promises) throws -> [String] {
        var faults: [String] = []
        for name in ["wal.db", "delete.db", "log"] {
            let path = "\(directory)/\(name)"
            let found = name == "log" ? records(path) : try rows(path, &faults)
            let lost = promised[name, default: []].subtracting(found).sorted()
            if !lost.isEmpty { faults.append("\(name) has lost \(lost.prefix(5))") }
        }
        return faults
    }

    private static func rows(_ path: String, _ faults: inout [String]) throws -> Set<Int> {
        guard access(path, F_OK) == 0 else { return [] }
        let query = "PRAGMA integrity_check; CREATE TABLE IF NOT EXISTS t (n); SELECT n FROM t"
        let said = try Command("sqlite3", path, query).run()
        let lines = said.output.split(separator: "\n")
        guard said.status == 0, lines.first == "ok" else {
            faults.append("\(path): \(said.output.prefix(200))\(said.errors)")
            return []
        }
        return Set(lines.dropFirst().compactMap { Int($0) })
    }

    private static func records(_ path: String) -> Set<Int> {
        guard let bytes = FileManager.default.contents(atPath: path) else { return [] }
        var found: Set<Int> = []
        for start in stride(from: 0, to: bytes.count - record + 1, by: record) {
            let part = bytes[start..<start + record]
            let word = Array(part.prefix(4))
            let number = word.reduce(0) { $0 << 8 | Int($1) }
            let isWhole = part.enumerated().allSatisfy { $1 == word[$0 % 4] }
            if isWhole { found.insert(number) }
        }
        return found
    }
}
