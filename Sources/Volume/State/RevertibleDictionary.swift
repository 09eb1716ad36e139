/// A dictionary that can be reverted to its state at a mark. The cost depends on what has changed
/// since, not on what it holds.
struct RevertibleDictionary<Key: Hashable, Value> {
    private(set) var values: [Key: Value] = [:]
    /// The former values of the keys that have changed since the mark; nil without a mark.
    private(set) var before: [Key: Value?]?

    var count: Int { values.count }
    var isEmpty: Bool { values.isEmpty }

    subscript(key: Key) -> Value? {
        get { values[key] }
        set {
            note(key)
            values[key] = newValue
        }
    }

    subscript(key: Key, default other: Value) -> Value {
        get { values[key] ?? other }
        set { self[key] = newValue }
    }

    @discardableResult
    mutating func removeValue(forKey key: Key) -> Value? {
        note(key)
        return values.removeValue(forKey: key)
    }

    mutating func removeAll(where isRemoved: (Key, Value) -> Bool = { _, _ in true }) {
        let removed = values.filter { isRemoved($0.key, $0.value) }
        for key in removed.keys { removeValue(forKey: key) }
    }

    mutating func mark() { before = [:] }

    mutating func removeMark() { before = nil }

    mutating func revert() {
        for (key, value) in before ?? [:] { values[key] = value }
        before = nil
    }

    private mutating func note(_ key: Key) {
        guard before != nil, before?[key] == nil else { return }
        before?.updateValue(values[key], forKey: key)
    }
}
