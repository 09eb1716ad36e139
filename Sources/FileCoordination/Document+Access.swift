import Control
import Foundation

// How a document gets at its file.
extension Document {
    /// One after the other, as asked for.
    func inTurn<Value: Sendable>(
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

    /// Returns when nothing is under way.
    func settle() async {
        var seen: Task<Void, Never>?
        while let task = last, task != seen {
            await task.value
            seen = task
        }
    }

    /// Runs in the file queue, with all the turns.
    ///
    /// The queue is not blocked by waiting: so others are let in by
    /// `relinquishPresentedItem` while this document waits for somebody else.
    @concurrent nonisolated func access<Value: Sendable>(
        _ intents: [FileAccessIntent],
        _ body: @escaping @Sendable (FileCoordinator) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            // Asking looks at paths, which is file access as well.
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
        let number = Party.nextNumber()
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
        if state != old { for listener in listeners.values { listener.yield(state) } }
    }

    func disable() {
        disablings += 1
        set(.editingDisabled)
    }

    func enable() {
        disablings = max(0, disablings - 1)
        if disablings == 0 { set(.editingDisabled, false) }
    }
}
