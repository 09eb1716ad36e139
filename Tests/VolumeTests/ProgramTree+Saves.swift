import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

// The ways in which programs save.
extension ProgramTree {
    /// Truncates and writes, or creates, as shell redirection and nano do.
    func save(_ path: String, _ bytes: [UInt8], by program: Program) throws {
        let handle = try open(path, O_WRONLY | O_CREAT | O_TRUNC, by: program)
        try write(handle, bytes)
        close(handle)
    }

    func save(_ path: String, _ text: String, by program: Program) throws {
        try save(path, Array(text.utf8), by: program)
    }

    /// Writes to a new file and renames it over.
    func replace(
        _ path: String, _ bytes: [UInt8], temporary: String? = nil, by program: Program
    ) throws {
        let temporary = temporary ?? path + ".new"
        try save(temporary, bytes, by: program)
        try rename(temporary, path, by: program)
    }

    /// Sets a file's times, as `touch -d` does.
    func setTime(_ path: String, seconds: Int) throws {
        let times = [timespec(tv_sec: seconds, tv_nsec: 0), timespec(tv_sec: seconds, tv_nsec: 0)]
        try #require(utimensat(AT_FDCWD, real(path), times, 0) == 0)
        var status = stat()
        lstat(real(path), &status)
        volume.events.attributesChanged(inode: UInt64(status.st_ino))
    }

    func writeInPlace(_ path: String, _ bytes: [UInt8], at offset: Int64, by program: Program)
        throws
    {
        let handle = try open(path, O_RDWR, by: program)
        try write(handle, bytes, at: offset)
        close(handle)
    }

    func append(_ path: String, _ bytes: [UInt8], by program: Program) throws {
        let handle = try open(path, O_WRONLY | O_APPEND, by: program)
        try write(handle, bytes)
        close(handle)
    }

    /// rm -r
    func removeTree(_ path: String, by program: Program) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: real(path)).sorted() {
            let inner = path + "/" + name
            var status = stat()
            lstat(real(inner), &status)
            if status.st_mode & S_IFMT == S_IFDIR {
                try removeTree(inner, by: program)
            } else {
                try unlink(inner, by: program)
            }
        }
        try rmdir(path, by: program)
    }

    func contents(_ path: String) -> [UInt8]? {
        FileManager.default.contents(atPath: real(path)).map { Array($0) }
    }

    // MARK: History

    /// The bytes of each version, oldest first.
    func versions(_ path: String) throws -> [[UInt8]] {
        guard let history = try volume.history.document(at: names(path), timeoutSeconds: 60) else {
            return []
        }
        return try history.versions.map { try bytes(of: $0) }
    }

    /// The programs that saved the versions, oldest first.
    func programs(_ path: String) throws -> [String] {
        try volume.history.document(at: names(path), timeoutSeconds: 60)?.versions.map(\.program)
            ?? []
    }

    func texts(_ path: String) throws -> [String] {
        try versions(path).map { String(decoding: $0, as: UTF8.self) }
    }

    func bytes(of version: Version) throws -> [UInt8] {
        let content = try volume.versions.content(of: version.id)
        return try bytes(content, entry: 0)
    }

    func bytes(_ content: VersionContent, entry: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(content.manifest.entries[entry].size))
        let count = try bytes.withUnsafeMutableBytes { try content.read(entry, into: $0, at: 0) }
        #expect(count == bytes.count)
        return bytes
    }

    /// Returns when nothing is left to do; false after `seconds`.
    @discardableResult
    func quiet(seconds: Double = 60) -> Bool {
        let end = Date(timeIntervalSinceNow: seconds)
        while Date() < end {
            if volume.recorder.catchUp(with: nil, timeoutSeconds: 1) {
                let report = volume.recorder.reports.report
                if report.pending == 0, !report.isScanning, volume.events.waiting.count == 0 {
                    return true
                }
            }
            usleep(2000)
        }
        return false
    }

    /// Does the steps of the recorder's loop until it has nothing left to do.
    func settle() {
        let recorder = volume.recorder
        repeat {
            while recorder.scanner.step() || recorder.settleMissing() {}
            recorder.queue.recordAll()
        } while recorder.queue.recordPending() || !recorder.processor.processAll()
            || recorder.state.scan != nil || !recorder.state.pending.all.isEmpty
    }

    /// All regular files and symlinks of a version, by path in the package.
    func packageFiles(_ version: Version) throws -> [String: String] {
        let content = try volume.versions.content(of: version.id)
        var files: [String: String] = [:]
        for (index, entry) in content.manifest.entries.enumerated() where entry.kind == .file {
            files[String(decoding: entry.path, as: UTF8.self)] = String(
                decoding: try bytes(content, entry: index), as: UTF8.self)
        }
        return files
    }

    /// The bytes of all versions of all documents, also of deleted ones.
    func reachable() throws -> Set<[UInt8]> {
        var keys: [Int64] = []
        try volume.journal.read { try $0.forEachItem { keys.append($0.key) } }
        var contents: Set<[UInt8]> = []
        for key in keys {
            for version in try volume.journal.read({ try $0.versions(of: key) }) {
                contents.insert(try bytes(of: version))
            }
        }
        return contents
    }

    /// Whether the journal has versions of a file, as it is now.
    func hasVersions(_ path: String) throws -> Bool {
        var status = stat()
        guard lstat(real(path), &status) == 0 else { return false }
        let inode = UInt64(status.st_ino)
        return try volume.journal.read { try $0.items(inode: inode).contains { $0.latest > 0 } }
    }

    /// All regular files of the tree.
    func files() -> [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for path in (try? FileManager.default.subpathsOfDirectory(atPath: real(""))) ?? [] {
            if let bytes = contents(path) { files[path] = bytes }
        }
        return files
    }

    /// Runs `body` while the recorder processes no events.
    func whileRecorderWaits<Value>(_ body: () throws -> Value) rethrows -> Value {
        let (isWaiting, mayContinue) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread { [volume] in
            try? volume?.recorder.perform { _, _ in
                isWaiting.signal()
                mayContinue.wait()
            }
        }
        isWaiting.wait()
        defer { mayContinue.signal() }
        return try body()
    }
}
