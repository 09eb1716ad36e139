import CLinux
import Glibc
import Logging
import Model
import SystemCalls

/// The clients of a server, and the loop that serves them. Only the polling thread uses it.
struct ClientTable {
    private let server: ControlServer
    private var clients: [Int32: Client] = [:]
    /// No connection is accepted before this time (monotonic nanoseconds), because the process has
    /// no free file descriptors.
    private var acceptAfter: Int64 = 0

    private struct Client {
        let connection: Connection
        var line = LineBuffer()
        /// Monotonic nanoseconds: the time of the last answer, or of the first byte of an
        /// unfinished line.
        var since: Int64
        var isBusy = false
        /// Whether it may have claims or presenters, so that it must not be dropped for being
        /// silent.
        var mayHoldClaims = false
        /// Whether the client has closed its sending side.
        var ended = false
    }

    init(_ server: ControlServer) { self.server = server }

    consuming func run() {
        while !server.isStopping { step() }
        finish()
    }

    /// Waits for events with one poll(2), with a timeout only if a time limit is pending.
    private mutating func step() {
        let now = cl_clock_monotonic_ns()
        dropIncompleteRequests(now)
        let order = clients.filter { !($0.value.isBusy && $0.value.connection.isGone) }.map(\.key)
        let accepting = now >= acceptAfter
        let descriptors =
            [server.descriptors.wake, accepting ? server.descriptors.listener : -1] + order
        let idle = Int16(POLLIN)
        let wanted =
            [idle, idle]
            + order.map { socket in
                let client = clients[socket]!
                // The thread that answers a busy client also writes to it.
                if client.isBusy { return 0 }
                return client.connection.hasMoreToSend ? idle | Int16(POLLOUT) : idle
            }
        var ready = [Int16](repeating: 0, count: descriptors.count)
        let count = cl_poll(descriptors, wanted, &ready, Int32(descriptors.count), patience(now))
        guard count > 0 else { return }
        if ready[0] != 0 { resume(server.takeAnswered()) }
        for (socket, client) in clients where client.connection.isGone && !client.isBusy {
            hangUp(socket)
        }
        for (index, socket) in order.enumerated() where ready[index + 2] != 0 {
            // An earlier event in this loop may have closed this client.
            if clients[socket] != nil { hear(socket, ready[index + 2]) }
        }
        if ready[1] != 0 { accept() }
    }

    /// Returns the milliseconds until the next time limit; -1 if there is none.
    private func patience(_ now: Int64) -> Int32 {
        let limit = Timestamp.span(seconds: server.limits.halfLineSeconds)
        let halfLines = clients.values.lazy.filter { !$0.isBusy && !$0.line.isEmpty }
        var due = halfLines.map { $0.since + limit }.min()
        if now < acceptAfter { due = min(due ?? .max, acceptAfter) }
        return due.map { Int32(clamping: max(0, $0 - now) / 1_000_000 + 1) } ?? -1
    }

    private mutating func hear(_ socket: Int32, _ events: Int16) {
        guard let client = clients[socket] else { return }
        if events & Int16(POLLOUT) != 0 { client.connection.flush() }
        if client.isBusy || events & Int16(POLLIN) == 0 {
            if events & Int16(POLLHUP | POLLERR | POLLNVAL) != 0 { hangUp(socket) }
            return
        }
        receive(socket)
    }

    private mutating func receive(_ socket: Int32) {
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        let count = cl_receive(socket, &piece, piece.count)
        if count == -Int(EAGAIN) || count == -Int(EINTR) { return }
        guard count >= 0 else { return hangUp(socket) }
        if count == 0 {
            clients[socket]!.ended = true
        } else {
            if clients[socket]!.line.isEmpty { clients[socket]!.since = cl_clock_monotonic_ns() }
            clients[socket]!.line.append(piece[..<count])
        }
        proceed(socket)
    }

    /// Handles the client's next complete lines, as long as they need no thread.
    private mutating func proceed(_ socket: Int32) {
        guard let client = clients[socket], !client.isBusy else { return }
        var line = clients[socket]!.line.next()
        var request = line.flatMap { server.request(in: $0) }
        while let turn = request, turn.isCoordination {
            guard clients[socket]!.mayHoldClaims || admitsTurns(of: client) else {
                return dismiss(
                    socket, .busy,
                    "too many programs have claims or presenters on this volume: close some")
            }
            server.hear(turn, from: client.connection)
            clients[socket]!.mayHoldClaims = true
            line = clients[socket]!.line.next()
            request = line.flatMap { server.request(in: $0) }
        }
        if (line?.count ?? clients[socket]!.line.count) > server.limits.lineBytesMax {
            return dismiss(
                socket, .invalid,
                "the line is longer than \(server.limits.lineBytesMax) bytes; a request is one line"
            )
        }
        if let line {
            clients[socket]!.isBusy = true
            server.answer(line, request, to: client.connection)
        } else if client.ended {
            hangUp(socket)
        }
    }

    /// Whether one more client may stay for as long as it likes.
    private func admitsTurns(of client: Client) -> Bool {
        let others = clients.values.filter(\.mayHoldClaims)
        guard others.count < max(1, server.limits.clientsMax - server.limits.clientsReserved) else {
            return false
        }
        let peer = client.connection.peer
        let own = others.count { $0.connection.peer.uid == peer.uid }
        let most = server.limits.clientsPerUserMax - server.limits.clientsOfUserReserved
        return server.isOwner(peer) || own < max(1, most)
    }

    private mutating func resume(_ answered: [Int32]) {
        for socket in answered {
            clients[socket]!.isBusy = false
            clients[socket]!.since = cl_clock_monotonic_ns()
            if clients[socket]!.connection.isGone { hangUp(socket) } else { proceed(socket) }
        }
    }

    private mutating func hangUp(_ socket: Int32) {
        guard let client = clients[socket] else { return }
        client.connection.isGone = true
        if client.isBusy { return }
        clients[socket] = nil
        client.connection.close()
        server.left(client.connection)
        _ = cl_close(socket)
    }

    /// Sends the reason if the client can take it at once, and closes the connection.
    private mutating func dismiss(_ socket: Int32, _ code: VolumeError.Code, _ message: String) {
        let line = ControlServer.refusal(VolumeError(code, message), id: nil)
        _ = line.withUnsafeBytes { cl_send(socket, $0.baseAddress!, $0.count) }
        // Unread input would turn the close into a reset, which discards the message.
        var rest = [UInt8](repeating: 0, count: 1 << 16)
        for _ in 0..<16 where cl_receive(socket, &rest, rest.count) <= 0 { break }
        hangUp(socket)
    }

    private mutating func dropIncompleteRequests(_ now: Int64) {
        let limit = Timestamp.span(seconds: server.limits.halfLineSeconds)
        for (socket, client) in clients where !client.isBusy && !client.line.isEmpty {
            guard now - client.since > limit else { continue }
            dismiss(
                socket, .timeout, "the request did not end in time; a request ends with a newline"
            )
        }
    }
}

// Accepting connections.
extension ClientTable {
    private mutating func accept() {
        let socket = cl_accept(server.descriptors.listener)
        if socket == -EMFILE || socket == -ENFILE || socket == -ENOMEM {
            acceptAfter = cl_clock_monotonic_ns() + 500_000_000
            server.log.warning(
                "cannot accept another client of the control socket: \(Errno(-socket))")
        }
        guard socket >= 0 else { return }
        guard let peer = Peer(socket: socket) else {
            _ = cl_close(socket)
            return
        }
        let connection = server.client(socket, peer)
        clients[socket] = Client(connection: connection, since: cl_clock_monotonic_ns())
        let theirs = clients.values.count { $0.connection.peer.uid == peer.uid }
        if !server.isOwner(peer), theirs > server.limits.clientsPerUserMax {
            dismiss(socket, .busy, "you have too many connections to this volume: close some")
        } else if clients.count > server.limits.clientsMax, !evict(for: peer, except: socket) {
            dismiss(socket, .busy, "the volume has too many clients: try again later")
        }
    }

    /// Drops the client that has been silent longest. Returns false if no client has been silent
    /// for long enough.
    private mutating func evict(for peer: Peer, except newcomer: Int32) -> Bool {
        let oldest = clients.filter {
            $0.key != newcomer && !$0.value.isBusy && !$0.value.mayHoldClaims
        }
        .min { $0.value.since < $1.value.since }
        guard let oldest else { return false }
        let silence = Double(cl_clock_monotonic_ns() - oldest.value.since) / 1e9
        guard silence > server.limits.idleSeconds else { return false }
        hangUp(oldest.key)
        return true
    }

    /// Waits until the answers in progress are complete. After a second, the clients that still
    /// wait count as gone, so that their work stops.
    private mutating func finish() {
        let patience = cl_clock_monotonic_ns() + 1_000_000_000
        while clients.values.contains(where: \.isBusy) {
            if cl_clock_monotonic_ns() > patience {
                for client in clients.values { client.connection.isGone = true }
            }
            var (descriptor, wanted, ready) = (server.descriptors.wake, Int16(POLLIN), Int16(0))
            guard cl_poll(&descriptor, &wanted, &ready, 1, 200) > 0 else { continue }
            for socket in server.takeAnswered() { clients[socket]!.isBusy = false }
        }
        for socket in clients.keys { hangUp(socket) }
    }
}
