import CLinux
import Glibc
import Synchronization

/// One client of the server: its socket, and the process behind it. Only the polling thread closes
/// it.
package final class Connection: Sendable {
    /// A number that is never used for another connection.
    package let number: UInt64
    package let peer: Peer
    let socket: Int32
    private let limits: Limits
    private let wake: @Sendable () -> Void
    private let gone = Atomic(false)
    private let outgoing = Mutex(Outgoing())

    /// Bytes that the kernel has not accepted yet.
    private struct Outgoing {
        var bytes: [UInt8] = []
        var start = 0
        var isClosed = false

        var count: Int { bytes.count - start }
    }

    /// - Parameter wake: Tells the polling thread to check whether something can be written.
    init(
        number: UInt64, socket: Int32, peer: Peer, limits: Limits,
        wake: @escaping @Sendable () -> Void
    ) {
        self.number = number
        self.socket = socket
        self.peer = peer
        self.limits = limits
        self.wake = wake
    }

    /// Whether the client has closed the connection or does not read its answers, so that work for
    /// it can stop.
    var isGone: Bool {
        get { gone.load(ordering: .relaxed) }
        set { gone.store(newValue, ordering: .relaxed) }
    }

    var hasMoreToSend: Bool { outgoing.withLock { $0.count > 0 } }

    /// Sends a line when the client can take it, and never blocks. A client that lets too many
    /// bytes accumulate counts as gone.
    package func push(_ line: [UInt8]) {
        let isLeft = outgoing.withLock { outgoing -> Bool in
            guard !outgoing.isClosed else { return false }
            outgoing.bytes += line
            flush(&outgoing)
            if outgoing.count > limits.pushBytesMax { isGone = true }
            return outgoing.count > 0
        }
        if isLeft { wake() }
    }

    /// Writes all bytes, and blocks while the client reads slowly. A client that reads nothing for
    /// `stallSeconds` counts as gone.
    func send(_ bytes: [UInt8]) {
        var left = append(bytes)
        while left > 0, !isGone {
            waitUntilWritable()
            left = append([])
        }
    }

    func flush() { _ = append([]) }

    /// Marks the connection as closed, after which its socket may be closed.
    func close() {
        isGone = true
        outgoing.withLock { $0.isClosed = true }
    }

    private func append(_ bytes: [UInt8]) -> Int {
        outgoing.withLock { outgoing in
            guard !outgoing.isClosed else { return 0 }
            outgoing.bytes += bytes
            flush(&outgoing)
            return outgoing.count
        }
    }

    private func flush(_ outgoing: inout Outgoing) {
        while outgoing.count > 0, !isGone {
            let count = outgoing.bytes.withUnsafeBytes {
                cl_send(socket, $0.baseAddress! + outgoing.start, outgoing.count)
            }
            if count > 0 {
                outgoing.start += count
            } else if count == -Int(EAGAIN) {
                break
            } else if count != -Int(EINTR) {
                isGone = true
            }
        }
        if outgoing.count == 0 {
            (outgoing.bytes, outgoing.start) = ([], 0)
        } else if outgoing.start > outgoing.bytes.count / 2 {
            outgoing.bytes.removeFirst(outgoing.start)
            outgoing.start = 0
        }
    }

    private func waitUntilWritable() {
        var (wanted, ready) = (Int16(POLLOUT), Int16(0))
        var descriptor = socket
        let count = cl_poll(&descriptor, &wanted, &ready, 1, Int32(limits.stallSeconds * 1000))
        if count == 0 || ready & Int16(POLLHUP | POLLERR) != 0 { isGone = true }
    }
}
