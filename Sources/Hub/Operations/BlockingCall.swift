import Dispatch
import Synchronization

/// Runs asynchronous calls of the hub from synchronous code.
package enum BlockingCall {
    /// Blocks the calling thread until `body` has finished. Do not call it on a thread of the
    /// concurrency pool.
    package static func wait<Value: Sendable>(
        for body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        let (done, outcome) = (DispatchSemaphore(value: 0), Outcome<Value>())
        Task {
            do {
                let value = try await body()
                outcome.result.withLock { $0 = .success(value) }
            } catch {
                outcome.result.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        return try outcome.result.withLock { try $0!.get() }
    }

    private final class Outcome<Value: Sendable>: Sendable {
        let result = Mutex<Result<Value, any Error>?>(nil)
    }
}
