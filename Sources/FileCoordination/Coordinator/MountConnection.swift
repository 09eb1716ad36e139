import Control
import Glibc
import Model
import Synchronization

/// This process's session with one volume: the connection that all its coordinators and presenters
/// share. It is made when it is needed, and made again when the daemon has ended while something is
/// presented.
final class MountConnection: Sendable {
    let socket: String
    private let state = Mutex(State())
    /// Held while a connection is made. Lock order: this lock before `state`.
    private let connecting = Mutex(())

    private struct State {
        var client: CoordinationClient?
        /// The number of the present connection. The daemon numbers turns for each connection anew.
        var generation = 0
        var lastEnded = 0
        var sessions: [Int: PresenterSession] = [:]
        var isReconnecting = false
    }

    private static let all = Mutex<[String: MountConnection]>([:])
    private static let lastNumber = Atomic(0)

    static func at(_ socket: String) -> MountConnection {
        all.withLock { all in
            if let connection = all[socket] { return connection }
            let connection = MountConnection(socket)
            all[socket] = connection
            return connection
        }
    }

    private init(_ socket: String) { self.socket = socket }

    /// A number for a claim or a presenter, unique in this process.
    static func nextNumber() -> Int {
        lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    }

    // MARK: The connection

    /// Returns the connection, connecting if necessary. All presenters of this volume are
    /// registered when it returns.
    func client() throws(VolumeError) -> CoordinationClient {
        try connecting.withLock { _ throws(VolumeError) in
            let (known, generation) = state.withLock { state in
                if state.client == nil { state.generation += 1 }
                return (state.client, state.generation)
            }
            if let known { return known }
            let client = try CoordinationClient(
                socket: socket,
                pushed: { [weak self] push in
                    if let message = push.message { self?.receive(message, generation) }
                },
                ended: { [weak self] in self?.connectionEnded(generation) })
            let sessions = state.withLock { state in
                if state.lastEnded != generation { state.client = client }
                return Array(state.sessions.values)
            }
            for session in sessions { session.register(again: client) }
            return client
        }
    }

    private func receive(_ message: PresenterMessage, _ generation: Int) {
        let session = state.withLock { $0.sessions[message.presenter] }
        session?.receive(message, generation)
    }

    private func connectionEnded(_ generation: Int) {
        let sessions = state.withLock { state in
            state.lastEnded = generation
            if state.generation == generation { state.client = nil }
            return Array(state.sessions.values)
        }
        for session in sessions { session.connectionEnded(generation) }
        reconnect()
    }

    /// Tries to connect until the volume is mounted again or nothing is presented any more.
    private func reconnect() {
        let mustStart = state.withLock { state in
            guard !state.sessions.isEmpty, !state.isReconnecting else { return false }
            state.isReconnecting = true
            return true
        }
        guard mustStart else { return }
        let thread = ThreadHandle("turns again") { [weak self] in
            var pause: UInt32 = 50_000
            while let self {
                let isDone = state.withLock { state in
                    if state.sessions.isEmpty || state.client != nil {
                        state.isReconnecting = false
                    }
                    return !state.isReconnecting
                }
                if isDone { return }
                usleep(pause)
                pause = min(pause * 2, 1_000_000)
                _ = try? client()
            }
        }
        thread?.detach()
    }

    /// Sends a request to the daemon that it is meant for; a daemon that was started later knows
    /// nothing of it.
    func tell(_ request: Request, _ generation: Int) {
        let client = state.withLock { $0.generation == generation ? $0.client : nil }
        client?.ask(request) { _ in }
    }

    // MARK: Presenters

    func add(_ session: PresenterSession, at place: MountedPath) throws(VolumeError) {
        // The session is entered before it is registered, because messages may come before the
        // answer. The connection comes first, because connecting registers all entered sessions.
        let client = try client()
        state.withLock { $0.sessions[session.number] = session }
        do {
            _ = try client.ask(session.request(at: place), as: Nothing.self)
        } catch {
            state.withLock { _ = $0.sessions.removeValue(forKey: session.number) }
            throw error
        }
    }

    func remove(_ session: PresenterSession) {
        let client = state.withLock { state in
            state.sessions[session.number] = nil
            return state.client
        }
        var request = Request(.retire)
        request.presenter = session.number
        client?.ask(request) { _ in }
    }
}
