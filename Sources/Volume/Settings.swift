import Model

/// How long versions are kept, in seconds of age. A version younger than `all` is always kept;
/// older ones, one an hour, then one a day, then one a week. Current, conflict and labelled
/// versions are never thinned.
package struct Retention: Hashable, Sendable {
    package var all: Int64 = 24 * 3600
    package var hourly: Int64 = 7 * 24 * 3600
    package var daily: Int64 = 30 * 24 * 3600
    /// Versions of a deleted document go when it has been deleted for so long.
    package var deleted: Int64 = 90 * 24 * 3600

    package init() {}
}

/// What a volume may be told when it is opened.
package struct Settings: Sendable {
    package var retention = Retention()
    package var clocks = MachineClocks()
    package var listConflicts = false
    /// Whether a store that does not exist is made.
    package var mayCreate = true
    /// Whether a part of the store that is missing or does not belong to it is made again from the
    /// others; else opening is refused.
    package var rebuilds = false
    /// Bytes. A file up to this size is copied aside when a program opens it to write in place; a
    /// larger one has its old blocks saved as they are overwritten.
    package var copiedSizeMax: Int64 = 1 << 20
    /// Seconds without an event before the recorder begins to work.
    package var settleSeconds = 0.2
    /// Seconds after which it begins although events keep coming.
    package var patienceSeconds = 3.0
    /// Seconds for which a vacated name remembers its document.
    package var tombstoneSeconds = 10.0
    /// Seconds without a change before a package is taken to be saved.
    package var packageQuietSeconds = 1.0
    /// Seconds that the end of a turn waits until the packages written in it have been recorded.
    package var packageTurnSeconds = 2.0
    /// Seconds after which a document that could not be recorded is looked at again; twice as many
    /// the next time.
    package var postponeSeconds = 0.5
    /// Seconds for which former contents wait for a program to close what replaces them, so that
    /// both are compared.
    package var busySeconds = 30.0
    /// Seconds after which the journal is tried again when the disk was full.
    package var retrySeconds = 5.0
    /// Seconds that may be spent on recording when the volume ends; the rest is in safety, and is
    /// recorded at the next start.
    package var partingSeconds = 0.5
    /// So many documents may be missing at the start before the brake is thought of, which asks for
    /// half of all.
    package var missingMax = 20
    /// Bytes. A larger document is synced and cut beside the others, which do not wait for it.
    package var largeBytes: Int64 = 64 << 20
    /// For how long such a document is left alone once it is cut, in times of what that took,
    /// unless somebody asks for it.
    package var largeRest = 9.0
    /// Bytes. An absent document up to this size is fetched whole before its open is answered; a
    /// larger one opens at once and is fetched as it is read.
    package var wholeSizeMax: Int64 = 1 << 20
    /// Seconds that a program waits for bytes from the hub (ETIMEDOUT).
    package var fetchSeconds = 30.0
    /// Programs whose opens fail (EACCES) where they would download: they look at everything and
    /// need nothing. Names as the kernel keeps them; `*` at the end stands for any rest.
    package var idlers = Idlers.usual
    /// Bytes of documents that the hub has, too, which may be kept here; more are evicted, the
    /// least recently used first. Nil: any number.
    package var cacheBytesMax: Int64?
    /// Bytes that are to stay free on the tree's disk, as long as evicting can help. Nil: none.
    package var freeBytesMin: Int64?
    /// The part of the disk that is to stay free for what programs write, at most `freeBytesKept`:
    /// old versions give way ahead of it. 0: they never do.
    package var freeShare = 0.1
    package var freeBytesKept: Int64 = 512 << 20
    /// Seconds that a program that was refused space waits for old versions to give way, where
    /// other requests wait behind it; and where none do.
    package var roomSeconds = 3.0
    package var roomSecondsParked = 30.0
    /// Seconds between two looks at these limits.
    package var evictionSeconds = 30.0

    package init() {}
}
