/// The settings of synchronisation.
package struct SyncSettings: Sendable {
    /// Bytes. New documents up to this size are downloaded with their contents; larger ones when
    /// they are read.
    package var eagerBytes: UInt64 = 1 << 20
    /// Bytes. Larger contents are transferred in the background.
    package var largeBytes = 8 << 20
    /// Seconds without hints after which the hub is asked.
    package var pollSeconds = 60.0
    /// Seconds after which the hub is asked again for states that were invalid.
    package var refusedSeconds = 600.0
    /// Seconds for which a change waits for related changes.
    package var deletionSeconds = 1.0
    /// Seconds for which a deletion waits at most while further deletions follow.
    package var removalSeconds = 20.0
    package var moveSeconds = 0.25
    package var creationSeconds = 0.02
    /// The number of versions of one document that are sent at once, and the seconds between later
    /// ones.
    package var editBurst = 20
    package var editSeconds = 1.0
    /// The limits in bytes per second; nil means that there is none.
    package var uploadRate: Int?
    package var downloadRate: Int?
    /// A mass deletion is more than `brakeCount` deletions, or at least `brakeLeast` and more than
    /// `brakePart` of all items.
    package var brakeCount = 1000
    /// Seconds within which deletions that are sent in parts are counted together.
    package var brakeWindowSeconds = 3600.0
    /// Seconds until held deletions are examined again.
    package var brakeSeconds = 30.0
    package var brakePart = 0.25
    package var brakeLeast = 50

    package init() {}
}
