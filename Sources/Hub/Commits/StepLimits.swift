/// How much the hub does in one transaction, for which others wait. What takes more is done in
/// several.
package struct StepLimits: Sendable {
    /// The amount of work (`LedgerTable.work`) after which a transaction takes no further group of
    /// operations.
    package var work = 4_000
    /// The work that one operation may cause besides that of its own rows, because it must be done
    /// in one transaction.
    package var operationWork = 200_000
    /// The same for a group of operations. A device can send many such groups.
    package var groupWork = 40_000
    /// The work after which an operation restores no further directory (`Revivals`).
    package var revivalWork = 5_000
    /// A directory with at most this many items below it is deleted in one transaction.
    package var deleted = 500
    /// A directory with at most this many items in the trash is restored in one transaction.
    package var revived = 500
    /// The work about what is in a directory that came into a shared folder or left it, within the
    /// transaction of its move.
    var crossed = 5_000
    /// The items of a directory that are read at once.
    package var read = 200
    /// The work of a transaction that removes versions.
    package var thinning = 5000

    package init() {}
}
