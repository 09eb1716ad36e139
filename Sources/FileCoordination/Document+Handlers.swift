import Foundation

// For code that is not asynchronous. What happens at once in the calls with `async` (the snapshot
// of a save) happens before these return; handlers are called on the main actor.
extension Document {
    /// As ``open()``; tells whether it succeeded.
    public final func open(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.open() }
    }

    /// As ``close()``; tells whether it succeeded.
    public final func close(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.close() }
    }

    /// As ``save(to:for:)``; tells whether it succeeded.
    public final func save(
        to url: URL, for operation: SaveOperation,
        completionHandler: @escaping @MainActor (Bool) -> Void
    ) { begin(completionHandler) { try await $0.save(to: url, for: operation) } }

    /// As ``autosave()``; tells whether it succeeded.
    public final func autosave(completionHandler: @escaping @MainActor (Bool) -> Void) {
        begin(completionHandler) { try await $0.autosave() }
    }

    /// As ``revert(toContentsOf:)``; tells whether it succeeded.
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
