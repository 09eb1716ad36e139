import Control
import Foundation

// How a document gets access to its file.
extension Document {
    /// Runs `body` after all bodies that were passed earlier have ended.
    func inOrder<Value: Sendable>(
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

    /// Runs `body` in the file queue while all `intents` are granted.
    ///
    /// Waiting does not block the queue, so `relinquishPresentedItem` can let other programs in
    /// while this document waits.
    @concurrent nonisolated func access<Value: Sendable>(
        _ intents: [FileAccessIntent],
        _ body: @escaping @Sendable (FileCoordinator) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            // Asking resolves paths, which is file access, too, so it also runs in the file queue.
            files.addOperation {
                let coordinator = FileCoordinator(filePresenter: self)
                coordinator.coordinate(with: intents, queue: self.files) { error in
                    if let error { return done.resume(throwing: error) }
                    done.resume(with: Result { try body(coordinator) })
                }
            }
        }
    }

    nonisolated func answer(
        _ completionHandler: @escaping @Sendable ((any Error)?) -> Void,
        _ body: @escaping @MainActor (Document) async throws -> Void
    ) {
        Task { @MainActor in
            do {
                try await body(self)
                completionHandler(nil)
            } catch { completionHandler(error) }
        }
    }

    // MARK: State

    func makeStates() -> AsyncStream<State> {
        let (stream, continuation) = AsyncStream.makeStream(of: State.self)
        let number = MountConnection.nextNumber()
        listeners[number] = continuation
        continuation.onTermination = { _ in
            Task { @MainActor [weak self] in self?.listeners[number] = nil }
        }
        continuation.yield(state)
        return stream
    }

    func set(_ bits: State, _ isSet: Bool = true) {
        let old = state
        if isSet { state.formUnion(bits) } else { state.subtract(bits) }
        if old.contains(.closed), !state.contains(.closed) { noteOpening() }
        if !old.contains(.closed), state.contains(.closed) { noteClosing() }
        if state != old { for listener in listeners.values { listener.yield(state) } }
    }

    func disable() {
        editingDisabledCount += 1
        set(.editingDisabled)
    }

    func enable() {
        editingDisabledCount = max(0, editingDisabledCount - 1)
        if editingDisabledCount == 0 { set(.editingDisabled, false) }
    }
}
