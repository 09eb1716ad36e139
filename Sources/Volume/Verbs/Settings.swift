import Model

/// How long versions are kept, in seconds of age. All versions younger than `all` are kept; of
/// older ones, one an hour, then one a day, then one a week. Current, conflict and labelled
/// versions are never thinned.
package struct Retention: Hashable, Sendable {
    package var all: Int64 = 24 * 3600
    package var hourly: Int64 = 7 * 24 * 3600
    package var daily: Int64 = 30 * 24 * 3600
    /// Versions of a document that was deleted this long ago are removed.
    package var deleted: Int64 = 90 * 24 * 3600

    package init() {}
}

/// The settings with which a volume is opened.
package struct Settings: Sendable {
    package var retention = Retention()
    package var clocks = MachineClocks()
    package var listConflicts = false
    /// Whether a store that does not exist is created.
    package var mayCreate = true
    /// Whether a part of the store that is missing or does not belong to it is rebuilt from the
    /// others; if false, opening is refused.
    package var rebuilds = false
    /// In bytes. A file up to this size is copied to the stash when a program opens it to write in
    /// place; a larger one has its old blocks saved as they are overwritten.
    package var copiedSizeMax: Int64 = 1 << 20
    /// Seconds without an event before the recorder begins to work.
    package var settleSeconds = 0.2
    /// Seconds after which the recorder begins although events keep coming.
    package var patienceSeconds = 3.0
    /// Seconds for which a tombstone of a name remembers its document.
    package var tombstoneSeconds = 10.0
    /// Seconds without a change after which a package counts as saved.
    package var packageQuietSeconds = 1.0
    /// Seconds that the end of a claim waits until the packages written under it have been
    /// recorded.
    package var packageClaimSeconds = 2.0
    /// Seconds after which recording of a document is tried again; doubled each time.
    package var postponeSeconds = 0.5
    /// Seconds for which prior contents wait for a program to close what replaces them, so that
    /// both can be compared.
    package var busySeconds = 30.0
    /// Seconds after which the status names a document that waits to be recorded.
    package var waitNoticeSeconds = 60.0
    /// Seconds for which the contents of a name wait for the release of the file that had the name
    /// until a moment ago.
    package var releaseSeconds = 2.0
    /// Seconds after which writing the journal is tried again when the disk was full.
    package var retrySeconds = 5.0
    /// Seconds that may be spent on recording when the volume closes. The rest is safe, and is
    /// recorded at the next start.
    package var closingSeconds = 0.5
    /// How many documents may be missing after a scan without question. If more than these and more
    /// than half of all are missing, none of them counts as deleted; nor if all are missing,
    /// however few they were.
    package var missingMax = 20
    /// In bytes. A larger document is synced and cut on a thread of its own, so that others need
    /// not wait.
    package var largeBytes: Int64 = 64 << 20
    /// How long such a document is not cut again, as a multiple of the time that cutting took,
    /// unless a caller asks for it.
    package var largeRest = 9.0
    /// In bytes. A placeholder up to this size is downloaded completely before its open is
    /// answered; a larger one opens at once and is fetched as it is read.
    package var wholeSizeMax: Int64 = 1 << 20
    /// Seconds that a program waits for bytes from the hub before it gets ETIMEDOUT.
    package var fetchSeconds = 30.0
    /// Programs whose opens fail with EACCES instead of starting a download, because they open
    /// every file. The names are those that the kernel keeps; `*` at the end stands for any rest.
    package var noDownloadPrograms = NoDownloadPrograms.usual
    /// Programs whose opens with O_NOATIME fail in the same way, because they look at the first
    /// bytes of files that they list.
    package var sniffingPrograms = NoDownloadPrograms.sniffing
    /// How many bytes of documents that the hub has too may be kept on this device. More are
    /// evicted, least recently used first. Nil means any number.
    package var cacheBytesMax: Int64?
    /// How many bytes eviction keeps free on the tree's disk. Nil means none.
    package var freeBytesMin: Int64?
    /// The part of the disk that is kept free for programs, at most `freeBytesKept`, by removing
    /// old versions. 0 never removes any.
    package var freeShare = 0.1
    package var freeBytesKept: Int64 = 512 << 20
    /// Seconds that a program waits for space to be freed.
    package var roomSeconds = 30.0
    /// Seconds between two checks of the eviction limits.
    package var evictionSeconds = 30.0
    /// Seconds after which a transaction of a scan ends, so that programs' events are not kept
    /// waiting.
    package var scanSeconds = 0.1
    /// The faults that a test has planted.
    var bugs: Set<IndexBug> = []

    package init() {}
}
