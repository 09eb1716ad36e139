import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// An open directory. Offsets are those of the file system below, passed on unchanged, so they stay
/// valid while names are added and removed.
final class DirectoryStream: Sendable {
    private static let bufferSize = 1 << 15

    private struct Window: ~Copyable {
        /// Entries that were read ahead; allocated when it is first needed.
        var buffer = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        var next = 0
        var end = 0
        /// The offset of the entry at `next`.
        var offset: Int64 = 0

        deinit { buffer.deallocate() }
    }

    struct Entry {
        var inode: UInt64
        /// The offset of the next entry.
        var offset: Int64
        var kind: UInt8
        var name: UnsafePointer<CChar>

        var isDots: Bool {
            name[0] == 46 && (name[1] == 0 || (name[1] == 46 && name[2] == 0))
        }
    }

    /// The directory; nil for a virtual one.
    let node: Node?
    /// The names in a virtual directory at the time of opening.
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

    /// Calls `take` with the entries from `offset` on until it returns false. That entry comes
    /// first next time.
    func forEach(from offset: Int64, _ take: (Entry) -> Bool) throws(Errno) {
        try window.withLock { (window) throws(Errno) in
            // Seeks to the beginning even if the stream is there already, because btrfs shows
            // entries that were made since the directory was opened only after a seek.
            if window.offset != offset || offset == 0 {
                try check(cl_lseek(descriptor, offset, SEEK_SET))
                (window.next, window.end, window.offset) = (0, 0, offset)
            }
            while true {
                if window.next == window.end, try !fill(&window) { return }
                let base = UnsafeRawPointer(window.buffer.baseAddress! + window.next)
                // The layout of struct linux_dirent64: inode, offset, record length, kind, name.
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
