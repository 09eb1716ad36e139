import Foundation

// Forms of the asynchronous calls for code that is not asynchronous. What those calls do before
// they wait (taking the snapshot of a save) has happened when these return. Handlers are called on
// the main actor.
extension Document {
    /// Calls ``open()`` and then the handler, with whether it succeeded.
    public final func open(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.open() }
    }

    /// Calls ``close()`` and then the handler, with whether it succeeded.
    public final func close(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.close() }
    }

    /// Calls ``save(to:for:)`` and then the handler, with whether it succeeded.
    public final func save(
        to url: URL, for operation: SaveOperation,
        completionHandler: @escaping @MainActor (Bool) -> Void
    ) { begin(completionHandler) { try await $0.save(to: url, for: operation) } }

    /// Calls ``autosave()`` and then the handler, with whether it succeeded.
    public final func autosave(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.autosave() }
    }

    /// Calls ``revert(toContentsOf:)`` and then the handler, with whether it succeeded.
    public final func revert(
        toContentsOf url: URL, completionHandler: @escaping @MainActor (Bool) -> Void
    ) { begin(completionHandler) { try await $0.revert(toContentsOf: url) } }

    private func begin(
        _ completionHandler: @escaping @MainActor (Bool) -> Void,
        _ body: @escaping @MainActor (Document) async throws -> Void
    ) {
        Task.immediate { @MainActor in
            do {
                try await body(self)
                completionHandler(true)
            } catch { completionHandler(false) }
        }
    }
}
