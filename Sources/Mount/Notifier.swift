import CFuse
import Glibc

/// Tells the kernel what it must forget. One thread of its own that holds no lock and that nobody
/// waits for: the kernel may hold a directory while it waits for an answer of ours, and a
/// notification waits for that directory.
final class Notifier: Sendable {
    enum Notice: Sendable {
        /// The attributes of a node.
        case attributes(UInt64)
        /// Attributes and cached contents.
        case contents(UInt64)
        /// A name in a directory.
        case name([UInt8], in: UInt64)
        /// Tells the kernel nothing; runs the closure after all earlier notices were sent.
        case then(@Sendable () -> Void)
    }

    private let queue = BlockingQueue<Notice>()

    /// Once the notifier has ended, the closure of `.then` runs at once.
    func tell(_ notice: Notice) {
        if !queue.put(notice), case .then(let body) = notice { body() }
    }

    func stop() { queue.close() }

    /// Until `stop`. The kernel not knowing the node (ENOENT) is as good as having forgotten it.
    func run(_ session: OpaquePointer) {
        while let notice = queue.take() {
            switch notice {
            case .attributes(let id): fuse_lowlevel_notify_inval_inode(session, id, -1, 0)
            case .contents(let id): fuse_lowlevel_notify_inval_inode(session, id, 0, 0)
            case .name(let name, let directory):
                name.asCString {
                    _ = fuse_lowlevel_notify_inval_entry(session, directory, $0, name.count - 1)
                }
            case .then(let body): body()
            }
        }
    }
}
