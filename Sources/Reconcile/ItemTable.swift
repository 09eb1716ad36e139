import Model

/// Where the decision finds items and puts them: the hub's ledger within a transaction, or a
/// dictionary in a simulation.
package protocol ItemTable {
    associatedtype Failure: Error

    /// Alive or in the trash. The root is always there, a directory.
    mutating func item(_ id: Identifier) throws(Failure) -> ItemState?
    /// The item that another one was unified into.
    mutating func alias(of id: Identifier) throws(Failure) -> Identifier?
    /// Who has that name there, alive.
    mutating func holder(of key: NameKey, in parent: Identifier) throws(Failure) -> Identifier?
    /// Alive and in the trash, in the order of their ids.
    mutating func children(of parent: Identifier) throws(Failure) -> [Identifier]

    /// One of the volume's history, live or superseded.
    mutating func revision(_ id: Identifier) throws(Failure) -> Revision?

    mutating func put(_ item: ItemState) throws(Failure)
    /// This item and all that is in it, what is alive of it, go through the feed once more.
    mutating func tellAllAgain(_ item: ItemState, _ sequence: UInt64) throws(Failure)
    /// Also one that is known, which then goes through the feed once more.
    mutating func setAlias(of id: Identifier, to target: Identifier) throws(Failure)
    /// Adds it to the history. The same id does not come twice.
    mutating func record(_ revision: Revision, of item: Identifier) throws(Failure)
}
