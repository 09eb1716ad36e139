import Dispatch
import Synchronization

/// Runs asynchronous work and blocks the calling thread until it is done. It must be called on a
/// thread that Concord has created: blocking a thread of Swift's pool can cause a deadlock.
func awaited<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Value
) -> Value {
    let outcome = Outcome<Value>()
    Task.detached { outcome.set(await body()) }
    return outcome.wait()
}

private final class Outcome<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let isSet = DispatchSemaphore(value: 0)

    func set(_ new: Value) {
        value.withLock { $0 = new }
        isSet.signal()
    }

    func wait() -> Value {
        isSet.wait()
        return value.withLock { $0! }
    }
}
