import Volume

/// What a sync engine reports to its owner, who sets these before `start`. Afterwards they are only
/// read.
final class EngineEvents: @unchecked Sendable {
    /// Called after something was put into the tree without the mount's knowledge.
    let changed: @Sendable ([DirectoryEntry]) -> Void
    /// Called with true when something exists only on this device, and with false when nothing
    /// does.
    var unsafe: (@Sendable (Bool) -> Void)?
    /// Called on the engine's thread whenever everything is synchronised.
    var connected: (@Sendable () -> Void)?
    /// Called when transfers or what is known about them may have changed, on any thread of the
    /// engine.
    var moved: (@Sendable () -> Void)?
    /// Called, possibly more than once, when another process is this device.
    var cloned: (@Sendable () -> Void)?

    init(changed: @escaping @Sendable ([DirectoryEntry]) -> Void) { self.changed = changed }
}
