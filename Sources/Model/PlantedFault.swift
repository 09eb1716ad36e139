#if DEBUG
    import Glibc
#endif

/// Faults that these programs once had. A debug program has one of them again if the environment
/// variable CONCORD_PLANTED has its name, so that `chaos planted` can show that it is found. The
/// programs that users get never have one.
package enum PlantedFault: String, CaseIterable {
    /// Retention believes the wall clock at once.
    case thinsByWallClock
    /// Contents that no hub has confirmed can be evicted.
    case evictsUnconfirmed
    /// Versions that wait to be sent can be purged.
    case purgesWhatWaits
    /// What was moved aside is not synced before the contents that replace it.
    case leavesCopiesUnsynced
    /// A restart of the synchronization keeps the operations that were numbered before it.
    case keepsOutbox
    /// A device continues at a hub whose journal was replaced by an older one.
    case trustsRestoredHub
    /// A copied store is not made a device of its own.
    case neverSplits
    /// A missing working tree or journal is made anew without asking.
    case makesMissingParts
    /// A date that the clock of the journal cannot represent ends the program.
    case trapsAtFarDates
    /// In `.versions/@TIME`, everybody finds and reads every document.
    case opensThePast
    /// A placeholder becomes another document's contents without its bytes.
    case movesPlaceholders
    /// A wait for the hub ends as soon as the document is on the disk.
    case promisesTooEarly
    /// A version in `.versions` is readable for those who may read the present file.
    case forgetsFormerModes
    /// The daemon tells everybody who may read a document of all its versions.
    case tellsAllVersions

    package var isPlanted: Bool {
        #if DEBUG
            PlantedFault.chosen == self
        #else
            false
        #endif
    }

    #if DEBUG
        private static let chosen = getenv("CONCORD_PLANTED").map { String(cString: $0) }
            .flatMap(PlantedFault.init(rawValue:))
    #endif
}
