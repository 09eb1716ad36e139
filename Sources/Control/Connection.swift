import CLinux
import Glibc
import Synchronization

/// One client of the server: its socket and who it is. Closed by the polling thread alone.
final class Connection: Sendable {
    let socket: Int32
    let peer: Peer
    private let stallSeconds: Double
    private let gone = Atomic(false)

    init(socket: Int32, peer: Peer, stallSeconds: Double) {
        self.socket = socket
        self.peer = peer
        self.stallSeconds = stallSeconds
    }

    /// It hung up, or does not take what it asked for: nothing is worth doing for it any more.
    var isGone: Bool {
        get { gone.load(ordering: .relaxed) }
        set { gone.store(newValue, ordering: .relaxed) }
    }

    /// Writes all of it, waiting for a slow reader; who takes nothing for `stallSeconds` is gone.
    func send(_ bytes: [UInt8]) {
        var done = 0
        while done < bytes.count, !isGone {
            let count = bytes.withUnsafeBytes {
                cl_send(socket, $0.baseAddress! + done, $0.count - done)
            }
            if count > 0 {
                done += count
            } else if count == -Int(EAGAIN) {
                waitUntilWritable()
            } else if count != -Int(EINTR) {
                isGone = true
            }
        }
    }

    private func waitUntilWritable() {
        var (wanted, ready) = (Int16(POLLOUT), Int16(0))
        var descriptor = socket
        let count = cl_poll(&descriptor, &wanted, &ready, 1, Int32(stallSeconds * 1000))
        if count == 0 || ready & Int16(POLLHUP | POLLERR) != 0 { isGone = true }
    }
}
