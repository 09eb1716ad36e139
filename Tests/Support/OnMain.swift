import Foundation
import Synchronization

/// Runs something on the main actor, which must not be blocked. So tests of documents do not run on
/// it.
@discardableResult
package func onMain<Value: Sendable>(
    _ body: @escaping @MainActor @Sendable () async throws -> Value
) throws
    -> Value
{
    let result = Mutex<Result<Value, any Error>?>(nil)
    let done = DispatchSemaphore(value: 0)
    Task { @MainActor in
        do {
            let value = try await body()
            result.withLock { $0 = .success(value) }
        } catch { result.withLock { $0 = .failure(error) } }
        done.signal()
    }
    guard done.wait(timeout: .now() + 60) == .success else {
        throw SupportError("the document did not come to an end")
    }
    return try result.withLock { $0! }.get()
}
