import Synchronization

/// A flag that is set once and shared by closures.
final class OneTimeFlag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .acquiring) }
    func set() { value.store(true, ordering: .releasing) }
}
