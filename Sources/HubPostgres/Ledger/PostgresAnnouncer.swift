import CPostgres
import Dispatch
import Glibc
import Hub
import Model
import Synchronization

/// A connection over which hubs of one database tell each other about commits, by NOTIFY and
/// LISTEN. A commit does not wait for it: NOTIFY within commits would make all of them wait for one
/// lock. Commits that are made while a message is being sent are announced together in the next
/// message.
final class PostgresAnnouncer: Sendable {
    private struct State {
        /// The heads that are to be told, by volume.
        var heads: [Identifier: UInt64] = [:]
        /// What is to be told about leases, by volume and device.
        var leases: [[Identifier]: String] = [:]
        /// What is to be told about processes of devices.
        var processes: [String] = []
        var isStarted = false
        var isConnected = false
        var isClosed = false
        /// Why this hub may not use the ledger at present.
        var objection: VolumeError?
    }

    private let address: PostgresAddress
    /// Marks our own messages, which the server sends to us, too.
    private let id = Identifier.random()
    private let state = Mutex(State())
    /// Wakes the thread.
    private let wake: Pipe
    let announcements: AsyncStream<Announcement>
    private let told: AsyncStream<Announcement>.Continuation

    private static let channel = "concord"
    /// The first word of what is told about processes of devices.
    private static let processes = "processes"
    /// How long messages wait for others, in microseconds.
    private static let pause: UInt32 = 5_000
    /// The lock that hubs with a bucket share, and that a hub with a directory of blobs, or a move,
    /// has alone. The value is arbitrary.
    private static let claim: Int64 = 0x636f_6e63_6f72_6432

    private final class Pipe: Sendable {
        let ends: (read: Int32, write: Int32)

        init() {
            var ends: [Int32] = [-1, -1]
            let kind = [SOCK_DGRAM, SOCK_CLOEXEC, SOCK_NONBLOCK].reduce(0) { $0 | $1.rawValue }
            socketpair(AF_UNIX, Int32(kind), 0, &ends)
            self.ends = (ends[0], ends[1])
        }

        deinit { _ = (Glibc.close(ends.read), Glibc.close(ends.write)) }

        func signal() {
            var byte: UInt8 = 0
            _ = write(ends.write, &byte, 1)
        }

        func drain() {
            var bytes = [UInt8](repeating: 0, count: 512)
            while read(ends.read, &bytes, bytes.count) > 0 {}
        }
    }

    init(_ address: PostgresAddress) {
        self.address = address
        wake = Pipe()
        (announcements, told) = AsyncStream.makeStream()
    }

    var objection: VolumeError? { state.withLock { $0.objection } }

    func announce(_ head: UInt64, of volume: Identifier) {
        state.withLock { $0.heads[volume] = max($0.heads[volume] ?? 0, head) }
        wake.signal()
    }

    func announce(leases message: String, of device: Identifier, in volume: Identifier) {
        state.withLock { $0.leases[[volume, device]] = message }
        wake.signal()
    }

    func announce(processes message: String) {
        // While there is no connection, messages are not collected: as soon as there is one again,
        // each hub tells the others of all its processes.
        let isConnected = state.withLock { state in
            if state.isConnected { state.processes.append(message) }
            return state.isConnected
        }
        if isConnected { wake.signal() }
    }

    /// Begins to tell and to listen.
    ///
    /// - Parameter isAlone: Whether no other hub may use the database.
    /// - Throws: `.busy` if another hub uses it.
    func start(isAlone: Bool) throws {
        guard !state.withLock({ $0.isStarted }) else { return }
        var session = try open(isAlone: isAlone)
        // The server needs a moment to notice that a former hub was killed.
        let start = ContinuousClock.now
        while let objection {
            guard ContinuousClock.now - start < .seconds(5) else {
                // A move may use the ledger without having it alone.
                state.withLock { $0.objection = nil }
                throw objection
            }
            usleep(100_000)
            session = try open(isAlone: isAlone)
        }
        state.withLock { $0.isStarted = true }
        let first = Handover(session)
        // The queue keeps this object until `close`.
        DispatchQueue(label: "concord.announcements").async { [self] in
            run(first.session, isAlone: isAlone)
        }
    }

    /// Gives a session to the thread that uses it from then on.
    private final class Handover: @unchecked Sendable {
        var session: PostgresSession?

        init(_ session: PostgresSession) { self.session = session }
    }

    func close() {
        state.withLock { $0.isClosed = true }
        wake.signal()
        told.finish()
    }

    private func open(isAlone: Bool) throws -> PostgresSession {
        let session = try PostgresSession(address)
        try session.connection.run("LISTEN \(Self.channel)")
        let lock = isAlone ? "pg_try_advisory_lock" : "pg_try_advisory_lock_shared"
        let row = try session.connection.run("SELECT \(lock)(\(Self.claim))").rows.first
        let isOurs = try row?.text(0) == "t"
        let objection = VolumeError(
            .busy,
            "Another hub uses the database \(address.name): stop it first. Only hubs with the same "
                + "bucket can share a database, and none can while it is moved.")
        state.withLock { $0.objection = isOurs ? nil : objection }
        return session
    }

    private func run(_ first: PostgresSession?, isAlone: Bool) {
        var session = first
        while !state.withLock({ $0.isClosed }) {
            do {
                let current = try session ?? open(isAlone: isAlone)
                if objection == nil { try serve(current) }
            } catch {
                // The ledger's own connections say what is wrong.
            }
            session = nil
            state.withLock { ($0.isConnected, $0.processes) = (false, []) }
            var waiting = pollfd(fd: wake.ends.read, events: 0, revents: 0)
            _ = poll(&waiting, 1, state.withLock({ $0.isClosed }) ? 0 : 500)
        }
    }

    /// Tells and listens until the connection breaks or this object is closed.
    private func serve(_ session: PostgresSession) throws {
        state.withLock { $0.isConnected = true }
        told.yield(.gap)
        while !state.withLock({ $0.isClosed }) {
            for message in try session.connection.notifications() { take(message) }
            let (heads, leases, processes) = state.withLock { state in
                defer { (state.heads, state.leases, state.processes) = ([:], [:], []) }
                return (state.heads, state.leases, state.processes)
            }
            if !heads.isEmpty || !leases.isEmpty || !processes.isEmpty {
                let messages =
                    heads.map { "\($0) \($1)" } + leases.values
                    + processes.map { "\(Self.processes) \($0)" }
                let script = messages.map {
                    "SELECT pg_notify('\(Self.channel)', '\(id) \($0)');"
                }
                do { try session.connection.run(script.joined(separator: " ")) } catch {
                    // Devices tell of open documents again with the next heartbeat.
                    // They are told over the next connection.
                    for (volume, head) in heads { announce(head, of: volume) }
                    throw error
                }
                usleep(Self.pause)
                continue
            }
            var waiting = [session.connection.descriptor, wake.ends.read].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = poll(&waiting, 2, -1)
            wake.drain()
        }
    }

    private func take(_ message: String) {
        let words = message.split(separator: " ").map(String.init)
        guard let sender = words.first, sender != id.description else { return }
        if words.count > 2, words[1] == Self.processes, let hub = Identifier(sender) {
            told.yield(.processes(words.dropFirst(2).joined(separator: " "), hub: hub))
            return
        }
        guard words.count == 3 else {
            told.yield(.leases(words.dropFirst().joined(separator: " ")))
            return
        }
        guard let volume = Identifier(words[1]), let head = UInt64(words[2]) else { return }
        told.yield(.head(volume, head))
    }
}
