import Synchronization

/// Counts the kernel's requests by kind.
final class RequestCounters: @unchecked Sendable {
    private static let kinds = 64
    private let counts = UnsafeMutablePointer<Atomic<Int>>.allocate(capacity: kinds)

    init() {
        for kind in 0..<Self.kinds { (counts + kind).initialize(to: Atomic(0)) }
    }

    deinit {
        counts.deinitialize(count: Self.kinds)
        counts.deallocate()
    }

    func count(_ opcode: UInt32) {
        guard opcode < Self.kinds else { return }
        counts[Int(opcode)].wrappingAdd(1, ordering: .relaxed)
    }

    /// The counts by the kernel's names, without kinds that have not occurred.
    var byName: [String: Int] {
        var result: [String: Int] = [:]
        for kind in 0..<Self.kinds {
            let count = counts[kind].load(ordering: .relaxed)
            if count > 0 { result[Self.names[kind] ?? "OPCODE_\(kind)"] = count }
        }
        return result
    }

    private static let names: [Int: String] = [
        1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK",
        8: "MKNOD", 9: "MKDIR", 10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN",
        15: "READ", 16: "WRITE", 17: "STATFS", 18: "RELEASE", 20: "FSYNC", 21: "SETXATTR",
        22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH", 26: "INIT",
        27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 34: "ACCESS",
        35: "CREATE", 36: "INTERRUPT", 38: "DESTROY", 39: "IOCTL", 40: "POLL",
        42: "BATCH_FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME2", 46: "LSEEK",
        47: "COPY_FILE_RANGE", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX", 53: "COPY_FILE_RANGE_64",
    ]
}
