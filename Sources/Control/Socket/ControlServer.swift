import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls

/// The server of the control socket.
///
/// One thread polls: it accepts connections, collects lines, and drops clients that exceed a limit.
/// A complete line is answered on its own thread, one at a time for each client. The client's next
/// lines stay in the kernel's buffer in the meantime, so `Limits` bounds memory, threads and
/// descriptors whatever the clients do.
package final class ControlServer: Sendable {
    /// Returns whether the peer may read (or write, if `write` is true) the document at a path of
    /// the volume.
    package typealias MayAccess = @Sendable (Peer, [Name], _ write: Bool) -> Bool

    package let path: String
    let limits: Limits
    let log: Logger
    private let socket: ControlSocket
    private let service: any ControlService
    private let mayAccess: MayAccess
    private let listener: Int32
    /// Writing a byte to this pipe wakes the polling thread.
    private let wakeRead: Int32
    private let wakeWrite: Int32
    private let state = Mutex(State())

    private struct State {
        var thread: ThreadHandle?
        var isStopping = false
        var lastClient: UInt64 = 0
        /// The sockets of clients whose answers are complete.
        var answered: [Int32] = []
    }

    package init(
        at socket: ControlSocket, service: any ControlService, limits: Limits = Limits(),
        log: Logger, mayAccess: @escaping MayAccess
    ) throws(VolumeError) {
        var ends: [Int32] = [0, 0]
        do throws(Errno) { try check(cl_pipe(&ends)) } catch {
            throw VolumeError(.system, "cannot create a pipe for the control socket: \(error)")
        }
        (wakeRead, wakeWrite) = (ends[0], ends[1])
        do throws(VolumeError) { listener = try socket.listen().release() } catch {
            _ = ends.map { cl_close($0) }
            throw error
        }
        self.socket = socket
        path = socket.path
        self.service = service
        self.limits = limits
        self.log = log
        self.mayAccess = mayAccess
    }

    deinit {
        for descriptor in [listener, wakeRead, wakeWrite] { _ = cl_close(descriptor) }
    }

    package func start() {
        let thread = ThreadHandle("control") { ClientTable(self).run() }
        if thread == nil {
            log.error("cannot create a thread for the control socket: fsctl will not be answered")
        }
        state.withLock { $0.thread = thread }
    }

    /// Stops accepting requests, and returns when all answers in progress are complete.
    package func stop() {
        let thread = state.withLock { state in
            state.isStopping = true
            return state.thread.take()
        }
        wake()
        thread?.join()
        socket.remove()
    }
}

// What the polling thread uses.
extension ControlServer {
    var descriptors: (listener: Int32, wake: Int32) { (listener, wakeRead) }
    var isStopping: Bool { state.withLock { $0.isStopping } }

    private func wake() {
        var byte: UInt8 = 1
        _ = write(wakeWrite, &byte, 1)
    }

    /// Empties the wake pipe, which poll(2) has reported as readable, and returns the completed
    /// clients.
    func takeAnswered() -> [Int32] {
        var bytes = [UInt8](repeating: 0, count: 256)
        _ = read(wakeRead, &bytes, bytes.count)
        return state.withLock { state in
            defer { state.answered = [] }
            return state.answered
        }
    }

    /// Decodes the request of a short line. Returns nil for a long or invalid line, which is
    /// handled on its own thread.
    func request(in line: [UInt8]) -> Request? {
        guard line.count <= Limits.shortLineBytesMax else { return nil }
        return try? value(Request.self, from: line)
    }

    /// Handles a request about claims and presenters, which is answered at once or later.
    func hear(_ request: Request, from connection: Connection) {
        do throws(VolumeError) {
            try authorize(request, from: connection.peer)
            try service.hear(request, from: connection)
        } catch {
            connection.push(ControlServer.refusal(error, id: request.id))
        }
    }

    func left(_ connection: Connection) { service.left(connection) }

    func client(_ socket: Int32, _ peer: Peer) -> Connection {
        let number = state.withLock { state in
            state.lastClient += 1
            return state.lastClient
        }
        return Connection(number: number, socket: socket, peer: peer, limits: limits) {
            [weak self] in self?.wake()
        }
    }

    /// Answers on another thread, which uses the socket alone until `takeAnswered` returns it.
    /// `request` is the decoded line if it is already known.
    func answer(_ line: [UInt8], _ request: Request?, to connection: Connection) {
        let body: @Sendable () -> Void = { [self] in
            if let reply = reply(to: line, request, from: connection) { connection.send(reply) }
            state.withLock { $0.answered.append(connection.socket) }
            wake()
        }
        if let thread = ThreadHandle("control-answer", body) {
            thread.detach()
        } else {
            connection.isGone = true
            state.withLock { $0.answered.append(connection.socket) }
            wake()
        }
    }

    /// Returns nil if the answer is sent later.
    private func reply(
        to line: [UInt8], _ known: Request?, from connection: Connection
    ) -> [UInt8]? {
        let request: Request
        do throws(VolumeError) {
            request = if let known { known } else { try value(Request.self, from: line) }
        } catch {
            return ControlServer.refusal(error, id: nil)
        }
        if request.isCoordination {
            hear(request, from: connection)
            return nil
        }
        do throws(VolumeError) {
            try authorize(request, from: connection.peer)
            let answer = try service.answer(request, from: connection.peer) { progress in
                let line = json(Reply<Nothing>(id: request.id, progress: progress))
                connection.send(line + [UInt8(ascii: "\n")])
                return !connection.isGone
            }
            return answer.line(id: request.id)
        } catch {
            return ControlServer.refusal(error, id: request.id)
        }
    }

    static func refusal(_ error: VolumeError, id: Int?) -> [UInt8] {
        json(Reply<Nothing>(id: id, error: error)) + [UInt8(ascii: "\n")]
    }

    func isOwner(_ peer: Peer) -> Bool { peer.uid == 0 || peer.uid == geteuid() }

    private func authorize(_ request: Request, from peer: Peer) throws(VolumeError) {
        let verb = try request.known()
        if isOwner(peer) { return }
        for access in request.access ?? [] {
            try authorize(peer, request.components(of: access.path), write: access.write != nil)
        }
        switch verb.reach(of: request) {
        case .everyone: return
        case .owner:
            throw VolumeError(
                .denied, "only the volume's owner and root may use \"\(request.verb)\"")
        case .reader, .writer:
            let write = verb.reach(of: request) == .writer
            try authorize(peer, request.components(), write: write)
            if let from = request.from {
                try authorize(peer, request.components(of: from), write: false)
            }
            if let to = request.to { try authorize(peer, request.components(of: to), write: true) }
        }
    }

    private func authorize(_ peer: Peer, _ path: [Name], write: Bool) throws(VolumeError) {
        guard mayAccess(peer, path, write) else {
            throw VolumeError(
                .denied,
                "you may not \(write ? "write" : "read") \"\(RawText(path: path).text)\" "
                    + "on this volume: ask its owner"
            )
        }
    }
}
