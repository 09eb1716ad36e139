import Model

/// The items that a decision reads and writes: the hub's ledger within a transaction, or a
/// dictionary in a simulation.
package protocol ItemTable {
    associatedtype Failure: Error

    /// The item, alive or in the trash. The root always exists and is a directory.
    mutating func item(_ id: Identifier) throws(Failure) -> ItemState?
    /// The item that `id` was unified into.
    mutating func alias(of id: Identifier) throws(Failure) -> Identifier?
    /// The alive item with that name.
    mutating func holder(of key: NameKey, in parent: Identifier) throws(Failure) -> Identifier?
    /// The items in a directory, alive and in the trash, in the order of their ids.
    mutating func children(of parent: Identifier) throws(Failure) -> [Identifier]

    /// A revision of the volume, live or superseded.
    mutating func revision(_ id: Identifier) throws(Failure) -> Revision?

    mutating func put(_ item: ItemState) throws(Failure)
    /// Sends this item and everything alive that is in it through the feed once more.
    mutating func resendAll(_ item: ItemState, _ sequence: UInt64) throws(Failure)
    /// Sets an alias. If it exists already, it goes through the feed once more.
    mutating func setAlias(of id: Identifier, to target: Identifier) throws(Failure)
    /// Adds a revision to the history. The same id must not be added twice.
    mutating func record(_ revision: Revision, of item: Identifier) throws(Failure)

    /// Whether the table itself will take out of the trash, later and by `revive`, what is in a
    /// directory and was deleted in this batch, because that is too much for one transaction.
    mutating func revivesLater(_ directory: Identifier, _ batch: OperationID) throws(Failure)
        -> Bool
}

extension ItemTable {
    package mutating func revivesLater(_ directory: Identifier, _ batch: OperationID)
        throws(Failure) -> Bool
    { false }

    /// Takes one item out of the trash, as `Operation.apply` does with each item in a directory
    /// that is restored. Its directory must be alive.
    package mutating func revive(_ item: ItemState, sequence: UInt64) throws(Failure) {
        let restore = Operation(
            id: .unknown, item: item.id, moment: Moment(time: 0, device: .root), base: 0,
            change: .restore)
        try Decision(operation: restore, sequence: sequence).reviveOne(item, in: &self)
    }
}
