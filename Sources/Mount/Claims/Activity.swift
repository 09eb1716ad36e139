import CLinux
import Glibc
import SystemCalls

/// Signs of what a program does with an open file, as they can be seen from outside. They are
/// looked up only while another program waits for the file, because reads and writes do not pass
/// through this process.
enum Activity {
    /// A value that changes whenever the process has read or written: the positions of its
    /// descriptors of the file, and the file's size and change time.
    static func trail(of thread: Int32, _ file: SharedDescriptor, _ path: String) -> [UInt64] {
        var trail: [UInt64] = []
        if let status = try? file.status() {
            trail = [
                UInt64(bitPattern: Int64(status.st_size)),
                UInt64(bitPattern: Int64(status.st_ctim.tv_sec)), UInt64(status.st_ctim.tv_nsec),
            ]
        }
        for descriptor in descriptors(of: thread, path).sorted() {
            let info = ProcessAncestry.text("/proc/\(thread)/fdinfo/\(descriptor)", bytesMax: 512)
            let position = info.split(separator: "\n").first { $0.hasPrefix("pos:") }
            trail.append(position.flatMap { UInt64($0.dropFirst(4).filter(\.isNumber)) } ?? 0)
        }
        return trail
    }

    private static func descriptors(of thread: Int32, _ path: String) -> [Int32] {
        guard let directory = opendir("/proc/\(thread)/fd") else { return [] }
        defer { closedir(directory) }
        var found: [Int32] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard let number = Int32(name) else { continue }
            var target = [CChar](repeating: 0, count: Int(PATH_MAX))
            let count = readlink("/proc/\(thread)/fd/\(name)", &target, target.count - 1)
            guard count > 0 else { continue }
            let text = target[..<count].map { UInt8(bitPattern: $0) }
            if text.starts(with: path.utf8) { found.append(number) }
        }
        return found
    }

    /// Whether programs that use the file coordinate themselves: the file is a database or one of
    /// the files beside it, or has record locks.
    static func coordinatesItself(_ file: SharedDescriptor, _ name: [UInt8]) -> Bool {
        needsNoTurns(name) || isDatabase(file) || isLocked(file)
    }

    /// Logs are appended to and read at the same time; the files beside a database are guarded by
    /// its locks.
    static func needsNoTurns(_ name: [UInt8]) -> Bool {
        let endings: [StaticString] = [".log", ".lock", "-wal", "-shm", "-journal"]
        return endings.contains { ending in
            name.count > ending.utf8CodeUnitCount
                && name.suffix(ending.utf8CodeUnitCount).elementsEqual(
                    UnsafeBufferPointer(
                        start: ending.utf8Start, count: ending.utf8CodeUnitCount))
        }
    }

    private static func isDatabase(_ file: SharedDescriptor) -> Bool {
        let raw = quietly(O_RDONLY | O_NONBLOCK) { cl_reopen(file.raw, $0) }
        guard raw >= 0 else { return false }
        let descriptor = Descriptor(owning: raw)
        let magic: StaticString = "SQLite format 3"
        var bytes = [UInt8](repeating: 0, count: magic.utf8CodeUnitCount)
        let count = cl_pread(descriptor.raw, &bytes, bytes.count, 0)
        return count == bytes.count
            && bytes.elementsEqual(UnsafeBufferPointer(start: magic.utf8Start, count: bytes.count))
    }

    private static func isLocked(_ file: SharedDescriptor) -> Bool {
        guard let status = try? file.status() else { return false }
        let ending = ":\(status.st_ino)"
        return ProcessAncestry.text("/proc/locks", bytesMax: 1 << 20).split(separator: "\n")
            .contains {
                line in
                line.split(separator: " ").contains { $0.hasPrefix("00:") && $0.hasSuffix(ending) }
            }
    }
}
