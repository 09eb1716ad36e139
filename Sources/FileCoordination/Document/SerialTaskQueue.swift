/// Runs asynchronous bodies one after the other, in the order of the calls. It holds the task that
/// ends when all bodies so far have ended.
@MainActor final class SerialTaskQueue {
    private var last: Task<Void, Never>?

    /// Runs `body` after all bodies that were passed earlier have ended.
    func run<Value: Sendable>(
        _ body: @escaping @MainActor () async throws -> Value
    ) async throws -> Value {
        let former = last
        let task = Task { @MainActor in
            await former?.value
            return try await body()
        }
        last = Task { _ = await task.result }
        return try await task.value
    }

    /// Returns when no such body is running or waiting.
    func settle() async {
        var seen: Task<Void, Never>?
        while let task = last, task != seen {
            await task.value
            seen = task
        }
    }
}
