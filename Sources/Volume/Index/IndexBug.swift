/// Faults that a test plants in the index to show that the simulation finds them. In each of them,
/// one decision of `DocumentIndex`, `EventProcessor`, `RenameProcessor`, `Scanner`, `MissingItems`
/// or `ContentReader` is left out or wrong.
/// Tests plant them by `Settings.bugs`; release builds ignore that.
enum IndexBug: String, CaseIterable, Sendable {
    // Tombstones
    case forgetsTombstones, takesTombstonesOfOthers, forgetsVacatedNames
    // Contents that are replaced, removed or moved aside
    case losesReplacedContent, losesRemovedContent, losesCopyMadeAtOpen
    case losesContentOfHiddenDocuments, forgetsOldContentOfContinued, removesUnrecorded
    case forgetsDependents, forgetsOtherLinks, absorbsWithoutContent
    // Identity
    case followsTheInode, exchangesDocuments, exchangeLosesOneContent, losesOldFile
    case seesNoTwins, keepsEmptyRows, keepsOtherInode
    // Scans
    case scanIgnoresEvents, settlesWithoutLooking, settlesBeforeEvents
    // Writers
    case ignoresLateSaves, ignoresUntouched, recordsWhileWriting
    // Restart
    case forgetsLoggedEvents
}

extension Settings {
    /// Whether a test has planted this fault.
    func has(_ bug: IndexBug) -> Bool {
        #if DEBUG
            bugs.contains(bug)
        #else
            false
        #endif
    }
}
