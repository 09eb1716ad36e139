import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls

/// The daemon's end of the control socket.
///
/// One thread polls: it accepts, gathers lines and drops who breaks a limit. A whole line is
/// answered on a thread of its own, one at a time for each client, whose next lines stay in the
/// kernel's buffer meanwhile; so memory, threads and descriptors are bounded by `Limits` whatever
/// the clients do.
package final class ControlServer: Sendable {
    /// The peer and whether it may read (or, `true`, write) the document at a path of the volume.
    package typealias MayAccess = @Sendable (Peer, [Name], _ write: Bool) -> Bool

    package let path: String
    let limits: Limits
    let log: Logger
    private let socket: ControlSocket
    private let service: any ControlService
    private let mayAccess: MayAccess
    private let listener: Int32
    /// A byte written here wakes the polling thread.
    private let wakeRead: Int32
    private let wakeWrite: Int32
    private let state = Mutex(State())

    private struct State {
        var thread: ThreadHandle?
        var isStopping = false
        var lastClient: UInt64 = 0
        /// Clients whose answer has been written.
        var answered: [Int32] = []
    }

    package init(
        at socket: ControlSocket, service: any ControlService, limits: Limits = Limits(),
        log: Logger, mayAccess: @escaping MayAccess
    ) throws(VolumeError) {
        var ends: [Int32] = [0, 0]
        do throws(Errno) { try check(cl_pipe(&ends)) } catch {
            throw VolumeError(.system, "cannot make a pipe for the control socket: \(error)")
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
            log.error("no thread for the control socket: fsctl will not be answered")
        }
        state.withLock { $0.thread = thread }
    }

    /// Takes no more requests, and returns when those being answered have ended.
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

// What the polling thread needs.
extension ControlServer {
    var descriptors: (listener: Int32, wake: Int32) { (listener, wakeRead) }
    var isStopping: Bool { state.withLock { $0.isStopping } }

    private func wake() {
        var byte: UInt8 = 1
        _ = write(wakeWrite, &byte, 1)
    }

    /// Empties the wake pipe, which has been told readable.
    func takeAnswered() -> [Int32] {
        var bytes = [UInt8](repeating: 0, count: 256)
        _ = read(wakeRead, &bytes, bytes.count)
        return state.withLock { state in
            defer { state.answered = [] }
            return state.answered
        }
    }

    /// What a short line asks; nil for a long one, or one that asks nothing: that takes a thread.
    func request(in line: [UInt8]) -> Request? {
        guard line.count <= Limits.shortLineBytesMax else { return nil }
        return try? value(Request.self, from: line)
    }

    /// A request about turns is answered here and now, or later.
    func hear(_ request: Request, from connection: Connection) {
        do throws(VolumeError) {
            try judge(request, from: connection.peer)
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

    /// Answers on another thread; the socket is that thread's until `takeAnswered` names it.
    /// `request` is what the line asks, where that is known already.
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

    /// Nil: it comes later.
    private func reply(
        to line: [UInt8], _ known: Request?, from connection: Connection
    ) -> [UInt8]? {
        let request: Request
        do throws(VolumeError) {
            request = if let known { known } else { try value(Request.self, from: line) }
        } catch {
            return ControlServer.refusal(error, id: nil)
        }
        if request.isOfTurns {
            hear(request, from: connection)
            return nil
        }
        do throws(VolumeError) {
            try judge(request, from: connection.peer)
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

    private func judge(_ request: Request, from peer: Peer) throws(VolumeError) {
        let verb = try request.known()
        if isOwner(peer) { return }
        for access in request.access ?? [] {
            try judge(peer, request.components(of: access.path), write: access.write != nil)
        }
        switch verb.reach(of: request) {
        case .everyone: return
        case .owner:
            throw VolumeError(
                .denied, "\"\(request.verb)\" is for the one who mounted the volume and for root")
        case .reader, .writer:
            let write = verb.reach(of: request) == .writer
            try judge(peer, request.components(), write: write)
            if let from = request.from {
                try judge(peer, request.components(of: from), write: false)
            }
            if let to = request.to { try judge(peer, request.components(of: to), write: true) }
        }
    }

    private func judge(_ peer: Peer, _ path: [Name], write: Bool) throws(VolumeError) {
        guard mayAccess(peer, path, write) else {
            throw VolumeError(
                .denied,
                "you may not \(write ? "write" : "read") \"\(RawText(path: path).text)\" "
                    + "on this volume; ask its owner"
            )
        }
    }
}
