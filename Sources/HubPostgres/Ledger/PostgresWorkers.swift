import Dispatch
import Model
import Synchronization

/// Threads that each own a connection, because libpq's calls block. A job gets the first one that
/// is free.
final class PostgresWorkers: Sendable {
    typealias Job = @Sendable (_ session: inout PostgresSession?) -> Void

    /// Used only on its own queue.
    private final class Worker: @unchecked Sendable {
        let queue: DispatchQueue
        var session: PostgresSession?

        init(_ number: Int) { queue = DispatchQueue(label: "concord.ledger.\(number)") }
    }

    private struct State {
        var idle: [Worker] = []
        var count = 0
        var waiting: [Job] = []
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    /// Runs `body` on a thread with its connection, which may be nil.
    func run<Value: Sendable>(
        _ body: @escaping @Sendable (inout PostgresSession?) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            add { session in done.resume(with: Result { try body(&session) }) }
        }
    }

    private func add(_ job: @escaping Job) {
        let worker = state.withLock { state -> Worker? in
            if let idle = state.idle.popLast() { return idle }
            guard state.count < limit else {
                state.waiting.append(job)
                return nil
            }
            state.count += 1
            return Worker(state.count)
        }
        worker?.queue.async { [self] in serve(worker!, job) }
    }

    private func serve(_ worker: Worker, _ first: @escaping Job) {
        var next: Job? = first
        while let job = next {
            job(&worker.session)
            next = state.withLock { state in
                guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
                state.idle.append(worker)
                return nil
            }
        }
    }

    /// Closes the connections. No job may be running or waiting.
    func close() {
        for worker in state.withLock({ $0.idle }) { worker.queue.sync { worker.session = nil } }
    }
}
