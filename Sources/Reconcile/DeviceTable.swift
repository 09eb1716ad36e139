import Model

/// What the exchange works on: a device's journal within a transaction, or dictionaries in a
/// simulation.
package protocol DeviceTable {
    associatedtype Failure: Error

    mutating func session() throws(Failure) -> Session
    mutating func set(_ session: Session) throws(Failure)

    // The tree, as the journal understands it by now.

    /// Nil: never here. What is deleted has an image that is not alive.
    mutating func local(_ id: Identifier) throws(Failure) -> Image?
    /// Alive, and an item that may leave this device.
    mutating func localChild(_ name: String, in parent: Identifier) throws(Failure) -> Identifier?
    /// Whether a directory has anything in it that is alive.
    mutating func hasLocalChildren(_ parent: Identifier) throws(Failure) -> Bool
    /// A version recorded here, its sequence 0 and its parents as recorded.
    mutating func revision(_ id: Identifier) throws(Failure) -> Revision?
    /// The contents of a version recorded here were modified then.
    mutating func setModified(_ time: Int64, of revision: Identifier) throws(Failure)
    /// Whether a version recorded here was made from another one, by one step or many.
    mutating func descends(_ id: Identifier, from ancestor: Identifier, of item: Identifier)
        throws(Failure) -> Bool
    /// These are conflict versions of the item, whatever they were here before.
    mutating func note(conflicts: [Revision], of id: Identifier) throws(Failure)
    /// The tree's item is another one from now on. One that has that id already has been deleted,
    /// and takes the id that is free then. What is in the outbox under the old id is its own too,
    /// and is found under the new one (`isInOutbox`); the operations themselves stay as they are,
    /// for the hub compares what is sent again with what was sent.
    mutating func reidentify(_ id: Identifier, as other: Identifier) throws(Failure)

    // The mirror.

    mutating func mirror(_ id: Identifier) throws(Failure) -> Mirror?
    /// Nil forgets it.
    mutating func setMirror(_ id: Identifier, _ mirror: Mirror?) throws(Failure)
    /// What the hub said last of each item counts for nothing any more: it says all of it again.
    mutating func forgetRemotes() throws(Failure)
    /// The lowest `Mirror.since` of what is due, underway or stuck: the hub's journal is in the
    /// tree up to there; nil when all of it is.
    mutating func firstDue() throws(Failure) -> UInt64?
    /// Some of what is due, underway or stuck, those with the lowest `Mirror.since` first.
    mutating func notShown(limit: Int) throws(Failure) -> [Identifier]

    /// Items that device and hub agreed on as being there under that name, in any life of the hub.
    mutating func agreed(on name: String, in parent: Identifier) throws(Failure) -> [Identifier]

    // What is to be sent.

    mutating func isUnsent(_ id: Identifier) throws(Failure) -> Bool
    mutating func addUnsent(_ id: Identifier) throws(Failure)
    mutating func removeUnsent(_ id: Identifier) throws(Failure)
    /// When what is unsent of it was done here.
    mutating func changeTimes(_ id: Identifier) throws(Failure) -> ChangeTimes
    /// Some of the items that are unsent and alive.
    mutating func unsentAlive(limit: Int) throws(Failure) -> [Identifier]
    mutating func isInOutbox(_ id: Identifier) throws(Failure) -> Bool
    /// Whether a version of that item is in the outbox.
    mutating func isSendingContents(_ id: Identifier) throws(Failure) -> Bool
    /// Whether a creation is in the outbox.
    mutating func isCreating() throws(Failure) -> Bool
    mutating func append(_ operation: Operation) throws(Failure)
    /// Forgets all that was not confirmed; the numbers of operations begin at 1 again.
    mutating func emptyOutbox() throws(Failure)
    mutating func removeOutbox(upTo number: UInt64) throws(Failure)

    // What only the world knows.

    /// With its keys and its spare name.
    mutating func placement(_ name: String, in parent: Identifier) throws(Failure) -> Placement
    /// Now, by the hub's clock as far as it is known.
    mutating func now() -> Int64
}

/// When something was last done to the registers of an item that have no time of their own, as a
/// version has: by the hub's clock as far as it is known, nanoseconds since 1970; nil where nobody
/// knows.
package struct ChangeTimes: Hashable, Sendable {
    package var placed: Int64?
    /// All attributes together.
    package var attributes: Int64?

    package init(placed: Int64? = nil, attributes: Int64? = nil) {
        self.placed = placed
        self.attributes = attributes
    }

    func time(of change: Change) -> Int64? {
        switch change {
        case .create, .move: placed
        case .attribute: attributes
        case .edit, .resolve, .delete, .restore: nil
        }
    }
}
