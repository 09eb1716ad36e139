import Model

/// Reports the progress of one document's transfer.
final class Progress: Sendable {
    private let state: Shared<SyncEngine.State>
    private let item: Identifier

    init(
        _ state: Shared<SyncEngine.State>, _ events: EngineEvents, _ item: Identifier,
        _ path: String, _ direction: Activity.Direction, total: UInt64
    ) {
        self.state = state
        self.item = item
        state.withLock {
            $0.activity.lines[item] = Activity.Line(
                path: path, direction: direction, done: 0, total: total)
        }
        events.moved?()
    }

    func add(_ bytes: Int) {
        state.withLock { $0.activity.lines[item]?.done += UInt64(bytes) }
    }
}
