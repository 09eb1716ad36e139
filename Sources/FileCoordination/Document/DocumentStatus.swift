/// The state that a program shows about a document, the streams that report it, and how many
/// reasons there are to keep the user from editing.
@MainActor final class DocumentStatus {
    private(set) var state = Document.State.closed
    private var listeners: [Int: AsyncStream<Document.State>.Continuation] = [:]
    private var editingDisabledCount = 0

    func makeStates() -> AsyncStream<Document.State> {
        let (stream, continuation) = AsyncStream.makeStream(of: Document.State.self)
        let number = MountConnection.nextNumber()
        listeners[number] = continuation
        continuation.onTermination = { _ in
            Task { @MainActor [weak self] in self?.listeners[number] = nil }
        }
        continuation.yield(state)
        return stream
    }

    func set(_ bits: Document.State, _ isSet: Bool) {
        let old = state
        if isSet { state.formUnion(bits) } else { state.subtract(bits) }
        if state != old { for listener in listeners.values { listener.yield(state) } }
    }

    func disableEditing() {
        editingDisabledCount += 1
        set(.editingDisabled, true)
    }

    func enableEditing() {
        editingDisabledCount = max(0, editingDisabledCount - 1)
        if editingDisabledCount == 0 { set(.editingDisabled, false) }
    }
}
