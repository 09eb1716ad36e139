/// A dictionary that can go back to what it was at a mark. That costs what has changed since, not
/// what it holds.
struct RevertibleDictionary<Key: Hashable, Value> {
    private(set) var values: [Key: Value] = [:]
    /// What the keys that have changed since the mark had then; nil without a mark.
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
