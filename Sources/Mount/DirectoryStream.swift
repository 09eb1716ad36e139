import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// One open of a directory. Offsets are the file system's own, handed through unchanged: they stay
/// right while names come and go.
final class DirectoryStream: Sendable {
    private static let bufferSize = 1 << 15

    private struct Window: ~Copyable {
        /// Entries that were read ahead, allocated when first needed.
        var buffer = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        var next = 0
        var end = 0
        /// The offset of the entry at `next`.
        var offset: Int64 = 0

        deinit { buffer.deallocate() }
    }

    struct Entry {
        var inode: UInt64
        /// Of the entry behind this one.
        var offset: Int64
        var kind: UInt8
        var name: UnsafePointer<CChar>

        var isDots: Bool {
            name[0] == 46 && (name[1] == 0 || (name[1] == 46 && name[2] == 0))
        }
    }

    /// Nil for a virtual directory.
    let node: Node?
    /// The names in a virtual one, when it was opened.
    let names: [Name]?
    let descriptor: Int32
    private let window = Mutex(Window())

    init(node: Node, descriptor: Int32) {
        self.node = node
        names = nil
        self.descriptor = descriptor
    }

    init(names: [Name]) {
        node = nil
        self.names = names
        descriptor = -1
    }

    deinit { if descriptor >= 0 { _ = cl_close(descriptor) } }

    /// Calls `take` with the entries from `offset` on until it declines one, which then comes first
    /// next time.
    func forEach(from offset: Int64, _ take: (Entry) -> Bool) throws(Errno) {
        try window.withLock { (window) throws(Errno) in
            // Seeks to the beginning even if the stream is there already: btrfs shows entries that
            // were made since the directory was opened only after a seek.
            if window.offset != offset || offset == 0 {
                try check(cl_lseek(descriptor, offset, SEEK_SET))
                (window.next, window.end, window.offset) = (0, 0, offset)
            }
            while true {
                if window.next == window.end, try !fill(&window) { return }
                let base = UnsafeRawPointer(window.buffer.baseAddress! + window.next)
                // struct linux_dirent64: inode, offset, length of the record, kind, name.
                let entry = Entry(
                    inode: base.loadUnaligned(as: UInt64.self),
                    offset: base.loadUnaligned(fromByteOffset: 8, as: Int64.self),
                    kind: base.load(fromByteOffset: 18, as: UInt8.self),
                    name: (base + 19).assumingMemoryBound(to: CChar.self))
                guard take(entry) else { return }
                window.next += Int(base.loadUnaligned(fromByteOffset: 16, as: UInt16.self))
                window.offset = entry.offset
            }
        }
    }

    private func fill(_ window: inout Window) throws(Errno) -> Bool {
        if window.buffer.count == 0 {
            window.buffer = .allocate(byteCount: Self.bufferSize, alignment: 8)
        }
        window.next = 0
        window.end = 0
        window.end = try check(
            cl_getdents(descriptor, window.buffer.baseAddress, window.buffer.count))
        return window.end > 0
    }
}
