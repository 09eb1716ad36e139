import Model

/// The data that `SyncPlanner` works on: a device's journal within a transaction, or dictionaries
/// in a simulation.
package protocol DeviceTable {
    associatedtype Failure: Error

    mutating func session() throws(Failure) -> Session
    mutating func set(_ session: Session) throws(Failure)

    // The tree, as the journal describes it.

    /// Nil when the item was never on this device. A deleted item has an image that is not alive.
    mutating func local(_ id: Identifier) throws(Failure) -> Image?
    /// The item with that name, if it is alive and may be sent to the hub.
    mutating func localChild(_ name: String, in parent: Identifier) throws(Failure) -> Identifier?
    /// The item to which the revision belongs on this device.
    mutating func document(with revision: Identifier) throws(Failure) -> Identifier?
    /// Whether a directory has any alive items.
    mutating func hasLocalChildren(_ parent: Identifier) throws(Failure) -> Bool
    /// A version that was recorded on this device. Its sequence is 0, and its parents are as
    /// recorded.
    mutating func revision(_ id: Identifier) throws(Failure) -> Revision?
    /// Sets when the contents of a recorded version were modified.
    mutating func setModified(_ time: Int64, of revision: Identifier) throws(Failure)
    /// Whether a recorded version is derived from another one, directly or indirectly.
    mutating func descends(_ id: Identifier, from ancestor: Identifier, of item: Identifier)
        throws(Failure) -> Bool
    /// Makes these revisions conflict versions of the item, whatever they were on this device
    /// before.
    mutating func note(conflicts: [Revision], of id: Identifier) throws(Failure)
    /// Makes a conflict version of the item history.
    mutating func makeHistory(_ revision: Identifier, of id: Identifier) throws(Failure)
    /// Gives an item of the tree another id. If a deleted item has that id, the two exchange their
    /// ids. The item's operations in the outbox belong to the new id (`isInOutbox`), but they are
    /// not changed themselves: the hub compares a repeated operation with what was sent first.
    mutating func reidentify(_ id: Identifier, as other: Identifier) throws(Failure)

    // The mirror: what is known about the items at the hub.

    mutating func mirror(_ id: Identifier) throws(Failure) -> Mirror?
    /// Nil removes the mirror.
    mutating func setMirror(_ id: Identifier, _ mirror: Mirror?) throws(Failure)
    /// Forgets the last states that the hub sent. The hub will send all of them again.
    mutating func forgetRemotes() throws(Failure)
    /// The lowest `Mirror.since` of the items that are due, underway or stuck. The tree shows the
    /// hub's journal up to there; nil when it shows all of it.
    mutating func firstDue() throws(Failure) -> UInt64?
    /// Items that are due, underway or stuck, those with the lowest `Mirror.since` first.
    mutating func notShown(limit: Int) throws(Failure) -> [Identifier]

    /// Items that have that name at the hub (`Mirror.imageAtHub(in:)`): device and hub agreed on
    /// it, perhaps before the last `SyncPlanner.restart`.
    mutating func agreed(on name: String, in parent: Identifier) throws(Failure) -> [Identifier]

    // Changes to be sent.

    mutating func isUnsent(_ id: Identifier) throws(Failure) -> Bool
    /// - Parameter times: When the changes were made, as far as it is known. Times that are noted
    ///   already stay if they are later.
    mutating func addUnsent(_ id: Identifier, changed times: ChangeTimes) throws(Failure)
    mutating func removeUnsent(_ id: Identifier) throws(Failure)
    /// When the unsent changes of the item were made on this device.
    mutating func changeTimes(_ id: Identifier) throws(Failure) -> ChangeTimes
    /// Some of the alive items that are unsent.
    mutating func unsentAlive(limit: Int) throws(Failure) -> [Identifier]
    mutating func isInOutbox(_ id: Identifier) throws(Failure) -> Bool
    /// Whether a version of the item is in the outbox.
    mutating func isSendingContents(_ id: Identifier) throws(Failure) -> Bool
    /// Whether the hub cannot take the contents of a conflict version for now. The other changes of
    /// its item are sent and applied without it, and the item stays unsent.
    mutating func isHeldBack(_ conflict: Identifier) throws(Failure) -> Bool
    /// Whether any creation is in the outbox.
    mutating func isCreating() throws(Failure) -> Bool
    mutating func append(_ operation: Operation) throws(Failure)
    /// Removes all operations that are not confirmed. The numbers of operations begin at 1 again.
    /// The items are unsent then, and keep the times of these changes (`ChangeTimes`): what is sent
    /// again is as old as it was.
    mutating func emptyOutbox() throws(Failure)
    mutating func removeOutbox(upTo number: UInt64) throws(Failure)

    // What does not come from the journal.

    /// The placement for a name, with keys and spare name.
    mutating func placement(_ name: String, in parent: Identifier) throws(Failure) -> Placement
    /// The present time by the hub's clock, as far as it is known, in nanoseconds since 1970.
    mutating func now() -> Int64
}

extension DeviceTable {
    package mutating func addUnsent(_ id: Identifier) throws(Failure) {
        try addUnsent(id, changed: ChangeTimes())
    }
}

extension ChangeTimes {
    /// The later times of both.
    package func latest(_ other: ChangeTimes) -> ChangeTimes {
        ChangeTimes(
            placed: [placed, other.placed].compactMap(\.self).max(),
            attributes: [attributes, other.attributes].compactMap(\.self).max())
    }
}
