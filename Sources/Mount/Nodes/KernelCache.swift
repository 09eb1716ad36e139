import CFuse
import Glibc

/// How long the kernel may cache names and attributes, and the replies that say so.
enum KernelCache {
    /// The number of seconds. Names and attributes change only through this process, which then
    /// notifies the kernel.
    static let seconds = 86400.0

    /// How long the kernel may cache attributes. It may not cache the mode of a set-ID program: the
    /// file below loses these bits when another user writes to it, and the kernel would go on using
    /// the cached mode.
    static func seconds(_ mode: mode_t, isVolatile: Bool) -> Double {
        let isSetID = mode & S_IFMT == S_IFREG && mode & (S_ISUID | S_ISGID) != 0
        return isVolatile || isSetID ? 0 : seconds
    }
}

extension cf_entry_out {
    init(_ node: Node, _ status: stat, isVolatile: Bool) {
        self.init()
        nodeid = node.id
        entry_valid = UInt64(KernelCache.seconds)
        attr_valid = UInt64(KernelCache.seconds(status.st_mode, isVolatile: isVolatile))
        withUnsafePointer(to: status) { cf_attr_fill(&attr, $0) }
    }
}

extension fuse_entry_param {
    init(_ entered: NodeTable.Entered, _ status: stat) {
        self.init()
        ino = entered.node.id
        attr = status
        if entered.isStashed { attr.st_nlink = 0 }
        entry_timeout = KernelCache.seconds
        attr_timeout = KernelCache.seconds(status.st_mode, isVolatile: entered.isVolatile)
    }

    init(absentForSeconds seconds: Double) {
        self.init()
        entry_timeout = seconds
    }
}
