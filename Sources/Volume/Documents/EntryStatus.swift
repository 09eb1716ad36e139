import Journal
import Model

/// The state of an entry of a directory.
package struct EntryStatus: Sendable {
    package var name: Name
    package var kind: Item.Kind
    package var state: DocumentHistory.State
    package var durability: Version.Durability
    package var isConflicted: Bool
}

struct EntryStatusReader {
    private let states: DocumentStates
    private let reader: Reader
    private let path: [Name]
    private let hasHub: Bool

    init(_ states: DocumentStates, _ reader: Reader, at path: [Name]) throws {
        (self.states, self.reader, self.path) = (states, reader, path)
        hasHub = try reader.value("hub.volume") != nil
    }

    func statuses(in directory: Item) throws -> [EntryStatus] {
        var entries: [(item: Item, facts: ItemFacts)] = []
        try ItemFacts.forEachEntry(of: directory.key, reader) { item, facts in
            if item.kind != .special { entries.append((item, facts)) }
        }
        let keys = Set(entries.filter { $0.item.kind == .directory }.map(\.item.key))
        var safety = SubdirectorySafety(of: keys, in: directory.key, reader)
        try safety.examine(hasHub: hasHub)
        return entries.map { item, facts in
            EntryStatus(
                name: item.name, kind: item.kind, state: states.state(of: item, facts),
                durability: durability(of: item, facts, safety), isConflicted: facts.isConflicted)
        }
    }

    /// The same as `DocumentSafety.durability` of one item.
    private func durability(of item: Item, _ facts: ItemFacts, _ safety: SubdirectorySafety)
        -> Version.Durability
    {
        if item.kind == .file || item.kind == .package {
            return item.changed == 0 ? .memory : facts.durability ?? .memory
        }
        let isDirectory = item.kind == .directory
        let isIgnored =
            facts.mirror == nil
            && states.items.ignoreFile.isLocal(path + [item.name], isDirectory: isDirectory)
        if hasHub, isIgnored { return .disk }
        if safety.unrecorded.contains(item.key) { return .memory }
        let isSent = !safety.unsent.contains(item.key) && states.safety.reason(item, facts) == nil
        return hasHub && isSent ? .hub : .disk
    }
}

/// Which directories in a directory contain something that is not safe. One pass over all that is
/// not safe on the volume finds it for all of them.
private struct SubdirectorySafety {
    private let subdirectories: Set<Int64>
    private let parent: Int64
    private let reader: Reader
    /// Those that contain documents with unrecorded changes.
    private(set) var unrecorded: Set<Int64> = []
    /// Those that contain something that the hub does not have.
    private(set) var unsent: Set<Int64> = []
    /// For directories that were met, the one of `subdirectories` that contains them.
    private var places: [Int64: Int64?] = [:]

    init(of subdirectories: Set<Int64>, in parent: Int64, _ reader: Reader) {
        (self.subdirectories, self.parent, self.reader) = (subdirectories, parent, reader)
    }

    mutating func examine(hasHub: Bool) throws {
        if subdirectories.isEmpty { return }
        var cursor: Int64 = 0
        while unrecorded.count < subdirectories.count {
            let page = try reader.pendingItems(after: cursor, limit: 256)
            guard let last = page.last else { break }
            cursor = last
            for key in page {
                if let place = try subdirectory(containing: key) { unrecorded.insert(place) }
            }
        }
        unsent = unrecorded
        guard hasHub else { return }
        try reader.forEachUnsentItem { key in
            if let place = try subdirectory(containing: key) { unsent.insert(place) }
            return unsent.count < subdirectories.count
        }
    }

    private mutating func subdirectory(containing key: Int64) throws -> Int64? {
        var path: [Int64] = []
        var found: Int64?
        var next = key
        // A limit above the depth of any path, so that a cycle of damaged parents ends, too.
        while path.count < 4096 {
            if let known = places[next] {
                found = known
                break
            }
            guard let above = try reader.parent(of: next) else { break }
            path.append(next)
            if above == parent {
                found = subdirectories.contains(next) ? next : nil
                break
            }
            next = above
        }
        for directory in path.dropFirst() { places[directory] = .some(found) }
        return found
    }
}
