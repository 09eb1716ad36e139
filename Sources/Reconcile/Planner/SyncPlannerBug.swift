#if DEBUG
    import Glibc
#endif

/// Bugs that tests plant.
package enum SyncPlannerBug: String, Hashable, Sendable, CaseIterable {
    case sendsEchoes, ignoresOutbox, overwritesUnsent, absenceDeletes, forgetsParent
    case sendsWhileFresh, keepsCursor, agreesEarly, dropsConflicts, staleIsFresh
    case makesOnlyWhatIsCurrent, seesNothingBesideWhatIsStuck, sendsEditsOfEdits
    case forgetsWhatWasAgreedOn, takesNamesTooEarly, draftsFromBefore
    case settlesWhatIsWithdrawn, namesNoAncestors, agreesOnWhatIsHeldBack, settlesWhatIsHeldBack
    case datesByTelling, datesByArrival, forgetsWhatTheHubLost
    case believesTheHubsConflicts, datesByResending, overlooksAttributes
    case repeatsItsEarlierAttributes, replacesWhatWasNotSeen

    /// The bug that the environment variable CONCORD_PLANTED names, in debug programs.
    package static let planted: Set<SyncPlannerBug> = {
        #if DEBUG
            let name = getenv("CONCORD_PLANTED").map { String(cString: $0) }
            return Set(name.flatMap(SyncPlannerBug.init(rawValue:)).map { [$0] } ?? [])
        #else
            return []
        #endif
    }()
}
