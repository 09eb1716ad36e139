/// Bugs that the rules of leases, or the program around them, could have. The schedules must find
/// each of them.
enum LeaseBug: String, CaseIterable, Sendable {
    /// The device relies on a lease longer than the hub keeps it.
    case reliesTooLong
    /// The device relies on a document that it has left out of a later telling.
    case reliesOnWhatItLeftOut
    case usesTheHubsWallClock
    case usesTheDevicesWallClock
    case takesLateTellings
    /// The hub forgets the number of a telling without documents.
    case forgetsNumbersAtClose
    /// Any heartbeat confirms what a device shows.
    case confirmsAnyRevision
    case neverRenews
    case neverTellsOfAClose
    /// The device shows what the hub has not confirmed for long.
    case showsForEver
    case keepsForEver
    /// A document is told as soon as it is open.
    case tellsAtOnce
    /// Nobody tells the device that something was opened, after the first time.
    case looksOnlyOnce
    /// The device tells the hub in each heartbeat, whether something is open or not.
    case neverRests
}
