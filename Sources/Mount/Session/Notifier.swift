import CFuse
import Glibc

/// Invalidates cached entries in the kernel, on a thread that holds no lock and that nothing waits
/// for: the kernel may hold a directory while it waits for an answer of ours, and a notification
/// waits for that directory.
final class Notifier: Sendable {
    enum Notice: Sendable {
        /// The attributes of a node.
        case attributes(UInt64)
        /// Attributes and cached contents.
        case contents(UInt64)
        /// A name in a directory.
        case name([UInt8], in: UInt64)
        /// Runs the closure after all earlier notices were sent, without notifying the kernel.
        case then(@Sendable () -> Void)
    }

    private let queue = BlockingQueue<Notice>()

    /// Queues a notice. When the notifier has ended, the closure of `.then` runs at once.
    func tell(_ notice: Notice) {
        if !queue.put(notice), case .then(let body) = notice { body() }
    }

    func stop() { queue.close() }

    /// Sends notices until `stop`. If the kernel does not know the node (ENOENT), nothing is
    /// cached.
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
