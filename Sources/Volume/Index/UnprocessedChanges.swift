/// The names, and the inodes of files and directories, that were changed by events which are not
/// processed yet. Such an event says what a scan cannot see: where something has come from.
///
/// During a scan no events are processed, so this only grows until the scan ends.
struct UnprocessedChanges {
    private var entries: Set<DirectoryEntry> = []
    private var inodes: Set<UInt64> = []
    /// The sequence number of the last event that was added.
    private(set) var last: UInt64 = 0

    mutating func add(_ events: [NotedEvent]) {
        for noted in events where noted.sequence > last {
            last = noted.sequence
            add(noted.event)
        }
    }

    func contains(_ entry: DirectoryEntry) -> Bool { entries.contains(entry) }
    func contains(_ inode: UInt64) -> Bool { inodes.contains(inode) }

    private mutating func add(_ event: TreeEvent) {
        switch event {
        case .created(let entry, let snapshot, _, _), .linked(let entry, let snapshot, _),
            .removed(let entry, let snapshot, _, _, _):
            entries.insert(entry)
            inodes.insert(snapshot.inode)
        case .renamed(let from, let to, let snapshot, let replaced, _, _, _):
            entries.formUnion([from, to])
            inodes.insert(snapshot.inode)
            if let replaced { inodes.insert(replaced.inode) }
        case .exchanged(let a, let snapshotA, let b, let snapshotB, _):
            entries.formUnion([a, b])
            inodes.formUnion([snapshotA.inode, snapshotB.inode])
        case .swapped(let a, let b): entries.formUnion([a, b])
        case .opened, .closed, .secured, .unseen, .saved, .untouched, .gone, .packaged, .attributes:
            break
        }
    }
}
