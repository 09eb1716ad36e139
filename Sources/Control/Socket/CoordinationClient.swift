import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A client of the control socket for claims and presenters. Any number of requests may be in
/// progress, answers arrive in any order, and the daemon may send messages at any time.
package final class CoordinationClient: Sendable {
    package typealias Answered = @Sendable (Result<[UInt8], VolumeError>) -> Void

    private let socket: SharedSocket
    private let pushed: @Sendable (Push) -> Void
    private let ended: @Sendable () -> Void
    private let state = Mutex(State())
    private let sending = Mutex(())

    private struct State {
        var lastID = 0
        var waiting: [Int: Answered] = [:]
        var hasEnded = false
    }

    /// A socket that is closed with its last reference.
    private final class SharedSocket: Sendable {
        let raw: Int32
        init(_ raw: Int32) { self.raw = raw }
        deinit { _ = cl_close(raw) }
    }

    /// `pushed`, `ended` and the handlers of answers are called on the connection's thread. While
    /// one of them runs, no other line is processed.
    package init(
        socket path: String, pushed: @escaping @Sendable (Push) -> Void,
        ended: @escaping @Sendable () -> Void
    ) throws(VolumeError) {
        let result = cl_unix_connect(path)
        guard result >= 0 else {
            throw VolumeError(
                -result == EACCES ? .denied : .notFound,
                "no daemon is at \(path) (\(Errno(-result))): is the volume mounted and yours?")
        }
        socket = SharedSocket(result)
        self.pushed = pushed
        self.ended = ended
        let socket = socket
        let thread = ThreadHandle("turns") { [weak self] in
            var lines = LineBuffer()
            var piece = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = cl_receive(socket.raw, &piece, piece.count)
                if count == -Int(EINTR) { continue }
                guard count > 0 else { break }
                lines.append(piece[..<count])
                while let line = lines.next() { self?.hear(line) }
            }
            self?.end()
        }
        guard let thread else { throw VolumeError(.system, "cannot create a thread") }
        thread.detach()
    }

    deinit { close() }

    /// Closes the connection, which ends all of its claims and presenters.
    package func close() { shutdown(socket.raw, Int32(SHUT_RDWR)) }

    /// Sends a request. `answered` gets the whole line of the answer.
    package func ask(_ request: Request, _ answered: @escaping Answered) {
        let id: Int? = state.withLock { state in
            guard !state.hasEnded else { return nil }
            state.lastID += 1
            state.waiting[state.lastID] = answered
            return state.lastID
        }
        guard let id else { return answered(.failure(gone)) }
        var request = request
        request.id = id
        if !send(json(request) + [UInt8(ascii: "\n")]) { close() }
    }

    /// Sends a request and waits for the answer. It must not be called from `pushed`.
    package func ask<Value: Codable & Sendable>(_ request: Request, as type: Value.Type)
        throws(VolumeError) -> Value
    {
        let answer = Mutex<Result<[UInt8], VolumeError>?>(nil)
        let done = Latch()
        ask(request) { result in
            answer.withLock { $0 = result }
            done.open()
        }
        done.wait()
        return try CoordinationClient.result(answer.withLock { $0! }, as: type)
    }

    package static func result<Value: Codable & Sendable>(
        _ answer: Result<[UInt8], VolumeError>, as type: Value.Type
    ) throws(VolumeError) -> Value {
        let reply = try value(Reply<Value>.self, from: try answer.get())
        if let failure = reply.error { throw failure.error }
        guard let result = reply.result else {
            throw VolumeError(.system, "the volume's daemon answered without a result")
        }
        return result
    }

    private var gone: VolumeError {
        VolumeError(.system, "the volume's daemon has stopped: mount the volume again")
    }

    /// Sends a line in one piece, even if several threads send. A request is smaller than the
    /// kernel's socket buffer, so a daemon that reads slowly does not block the sender for long.
    private func send(_ bytes: [UInt8]) -> Bool {
        sending.withLock { _ in
            var done = 0
            while done < bytes.count {
                let count = bytes.withUnsafeBytes {
                    cl_send(socket.raw, $0.baseAddress! + done, $0.count - done)
                }
                if count == -Int(EINTR) { continue }
                guard count > 0 else { return false }
                done += count
            }
            return true
        }
    }

    private func hear(_ line: [UInt8]) {
        guard let reply = try? value(Reply<Nothing>.self, from: line), let id = reply.id else {
            if let push = try? value(Push.self, from: line) { pushed(push) }
            return
        }
        let answered = state.withLock { $0.waiting.removeValue(forKey: id) }
        answered?(.success(line))
    }

    private func end() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            defer { state.waiting = [:] }
            return state.waiting
        }
        for answered in waiting.values { answered(.failure(gone)) }
        ended()
    }
}

/// A latch: threads wait until it is opened, once.
package final class Latch: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private let isOpen = Atomic(false)

    package init() {
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        pthread_cond_destroy(condition)
        mutex.deallocate()
        condition.deallocate()
    }

    package func open() {
        pthread_mutex_lock(mutex)
        isOpen.store(true, ordering: .relaxed)
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    package func wait() {
        pthread_mutex_lock(mutex)
        while !isOpen.load(ordering: .relaxed) { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }
}
