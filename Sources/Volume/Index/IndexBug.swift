/// Faults that the simulation of the index plants, to show that it would find them. Each is one
/// decision of `DocumentIndex`, `EventProcessor`, `RenameProcessor` or `Scanner` that is left out
/// or wrong. Only tests plant them, by `Settings.bugs`; release builds have none.
enum IndexBug: String, CaseIterable, Sendable {
    // Tombstones
    case forgetsTombstones, takesTombstonesOfOthers, forgetsVacatedNames
    // Contents that are replaced, removed or moved aside
    case losesReplacedContent, losesRemovedContent, losesCopyMadeAtOpen
    case losesContentOfHiddenDocuments, forgetsOldContentOfContinued, removesUnrecorded
    case forgetsDependents
    // Identity
    case followsTheInode, exchangesDocuments, exchangeLosesOneContent, losesOldFile
    case seesNoTwins, keepsEmptyRows
    // Writers
    case ignoresLateSaves
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
