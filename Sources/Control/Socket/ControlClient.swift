import CLinux
import Glibc
import Model
import SystemCalls

/// A client of the control socket that sends one request at a time.
package final class ControlClient {
    private let socket: Descriptor
    /// The socket's descriptor, by which another thread can end the connection.
    package var descriptor: Int32 { socket.raw }
    private let path: String
    private var lines = LineBuffer()
    private var lastID = 0

    package init(socket path: String) throws(VolumeError) {
        self.path = path
        let result = cl_unix_connect(path)
        if result >= 0 {
            socket = Descriptor(owning: result)
            return
        }
        switch -result {
        case ECONNREFUSED, ENOENT:
            throw VolumeError(
                .notFound,
                "the volume's daemon at \(path) is not running: mount the volume again")
        case EACCES, EPERM:
            throw VolumeError(
                .denied, "the volume belongs to another user: you may not connect to \(path)")
        default: throw VolumeError(.system, "cannot connect to \(path): \(Errno(-result))")
        }
    }

    /// The daemon's process id; nil if it runs in another PID namespace.
    package var process: Int32? {
        Peer(socket: socket.raw).flatMap { $0.process > 0 ? $0.process : nil }
    }

    /// Sends a request and waits for its answer. The timeout restarts with each line of progress.
    package func ask<Value: Codable & Sendable>(
        _ request: Request, as type: Value.Type, timeoutSeconds: Double = 60,
        progress: (Progress) -> Void = { _ in }
    ) throws(VolumeError) -> Value {
        lastID += 1
        var request = request
        request.id = lastID
        try send(json(request) + [UInt8(ascii: "\n")])
        while true {
            let line = try nextLine(timeoutSeconds)
            let reply = try value(Reply<Value>.self, from: line)
            // A line without an id concerns the whole connection.
            guard reply.id == nil || reply.id == lastID else { continue }
            if let step = reply.progress { progress(step) }
            if let failure = reply.error { throw failure.error }
            if reply.ok == true, let result = reply.result { return result }
        }
    }

    private func send(_ bytes: [UInt8]) throws(VolumeError) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                cl_send(socket.raw, $0.baseAddress! + done, $0.count - done)
            }
            if count == -Int(EINTR) { continue }
            // The server may have sent the reason before it closed the connection, so that line is
            // still read.
            guard count > 0 else { return }
            done += count
        }
    }

    private func nextLine(_ timeoutSeconds: Double) throws(VolumeError) -> [UInt8] {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            if let line = lines.next() { return line }
            guard lines.count <= Limits.replyBytesMax else {
                throw VolumeError(.invalid, "the answer from \(path) is too long")
            }
            try waitUntilReadable(deadline, timeoutSeconds)
            let count = cl_receive(socket.raw, &piece, piece.count)
            if count == -Int(EINTR) { continue }
            guard count > 0 else {
                throw VolumeError(
                    .system,
                    "the volume's daemon stopped before it answered: see the file log in its store")
            }
            lines.append(piece[..<count])
        }
    }

    private func waitUntilReadable(_ deadline: Int64, _ timeoutSeconds: Double)
        throws(VolumeError)
    {
        while true {
            let left = (deadline - cl_clock_monotonic_ns()) / 1_000_000
            var (descriptor, wanted, ready) = (socket.raw, Int16(POLLIN), Int16(0))
            let count = cl_poll(
                &descriptor, &wanted, &ready, 1, Int32(clamping: max(0, min(left, 3_600_000))))
            if count > 0 { return }
            if cl_interrupted() != 0 {
                throw VolumeError(.timeout, "interrupted before the volume answered")
            }
            if left <= 0 {
                throw VolumeError(
                    .timeout, "the volume's daemon did not answer within \(timeoutSeconds) s")
            }
        }
    }
}
