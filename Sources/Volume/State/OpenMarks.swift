import CLinux
import Glibc
import SystemCalls

/// Empty files that name the inodes of files that programs have open for writing, or have closed
/// and that are not recorded. Btrfs commits names in their order: what it has committed of a file
/// that was written after its mark was made comes with the mark.
struct OpenMarks: Sendable {
    /// An O_PATH descriptor of the stash.
    let directory: Int32

    private static let prefix = "open."

    private static func name(_ inode: UInt64) -> String { prefix + String(inode, radix: 16) }

    /// If the disk is full, there is no mark.
    func add(_ inode: UInt64) {
        let file = cl_openat(directory, OpenMarks.name(inode), O_WRONLY | O_CREAT, 0o600)
        if file >= 0 { _ = cl_close(file) }
    }

    func remove(_ inode: UInt64) { _ = cl_unlinkat(directory, OpenMarks.name(inode), 0) }

    /// The inodes that a daemon has left marked.
    func left() -> [UInt64] {
        var inodes: [UInt64] = []
        try? forEachName(in: directory) { name in
            let text = name.text
            guard text.hasPrefix(OpenMarks.prefix),
                let inode = UInt64(text.dropFirst(OpenMarks.prefix.count), radix: 16)
            else { return }
            inodes.append(inode)
        }
        return inodes
    }
}
