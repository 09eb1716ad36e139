import CLinux
import Journal
import Model

// What the recorder knows and has not done yet is written beside what it did, in the same
// transactions: whose each moved-aside content is. Together with the log of events a killed daemon
// loses nothing of what it had understood.
extension Recorder {
    private static let elsewhere: UInt8 = 0x01
    private static let superseded: UInt8 = 0x80
    private static let base: UInt8 = 0x08
    private static let flags: UInt8 = 0x88
    private static let lastEvent = "events"

    /// To be called at the end of each transaction that may have changed works.
    func persist(_ t: Transaction, upTo sequence: UInt64? = nil) throws {
        for key in memory.touched.sorted() {
            try persist(memory.works[key]?.formers ?? [], of: key, t)
        }
        memory.touched = []
        if let sequence { try t.set(Recorder.lastEvent, to: String(sequence)) }
    }

    /// Writes the former contents that a document still has after this transaction.
    func persist(_ formers: [Former], of key: Int64, _ t: Transaction) throws {
        let rows = formers.enumerated().map { row($1, order: $0, of: key) }
        let before = memory.persisted[key] ?? [:]
        let now = Dictionary(uniqueKeysWithValues: rows.map { ($0.name, $0) })
        for name in before.keys.sorted() where now[name] == nil { try t.removeStashed(name) }
        for row in rows where before[row.name] != row { try t.update(row) }
        memory.persisted[key] = now.isEmpty ? nil : now
    }

    private func row(_ former: Former, order: Int, of key: Int64) -> Stashed {
        let flags =
            (former.isSuperseded ? Recorder.superseded : 0) | (former.isBase ? Recorder.base : 0)
        let place: String
        switch former.place {
        case .stash(let entry): place = entry.file
        case .elsewhere(let trace):
            place = "\(trace.mode).\(trace.size).\(trace.modified).\(trace.changed)"
        }
        return Stashed(
            name: "\(key)/\(order)/\(place)", inode: former.inode, item: key,
            kind: flags | (former.entry.map { code($0.kind) } ?? Recorder.elsewhere),
            saved: former.save?.time,
            actor: former.save?.actor ?? Actor(process: 0, uid: 0, program: ""), recorded: 0)
    }

    /// Takes up what the last daemon had not done, and gives the events that it had not understood.
    func restore(_ logged: [NotedEvent]) {
        do {
            let (rows, last) = try journal.read { reader in
                (
                    try reader.stashed().filter { $0.item != nil },
                    try reader.value(Recorder.lastEvent).flatMap { UInt64($0) } ?? 0
                )
            }
            // In a store that was copied, or comes from a backup, inodes are those of other files.
            let root = try journal.read { try $0.item(Item.root)?.inode } ?? 0
            let isCopy = root != 0 && root != status(tree).inode
            if !isCopy { backlog = logged.filter { $0.sequence > last } }
            for row in rows.sorted(by: { order(of: $0) < order(of: $1) }) {
                restore(row, isCopy: isCopy)
            }
        } catch {
            tell("journal", "What was left to do could not be read from the journal: \(error)")
        }
    }

    private func code(_ kind: Stash.Kind) -> UInt8 {
        switch kind {
        case .displaced: 2
        case .copied: 3
        case .undo: 4
        }
    }

    private func order(of row: Stashed) -> Int {
        let parts = row.name.split(separator: "/", maxSplits: 2)
        return parts.count > 1 ? Int(parts[1]) ?? 0 : 0
    }

    private func restore(_ row: Stashed, isCopy: Bool) {
        guard let key = row.item, var former = former(row) else { return }
        if isCopy, former.entry == nil {
            memory.persisted[key, default: [:]][row.name] = row
            memory.touched.insert(key)
            return
        }
        former.isRecovered = isCopy
        let save = row.saved.map { Work.Save(actor: row.actor, time: $0) }
        memory.persisted[key, default: [:]][row.name] = row
        touch(key) { work in
            work.formers.append(former)
            work.formers[work.formers.count - 1].save = save
        }
        if let entry = former.entry {
            memory.stashUsers[entry.file, default: 0] += 1
            if entry.kind == .displaced { memory.displaced[entry.inode, default: []].insert(key) }
        } else {
            memory.heirs[former.inode, default: []].insert(key)
        }
    }

    private func former(_ row: Stashed) -> Former? {
        let parts = row.name.split(separator: "/", maxSplits: 2)
        guard parts.count == 3 else { return nil }
        let isSuperseded = row.kind & Recorder.superseded != 0
        let isBase = row.kind & Recorder.base != 0
        if row.kind & ~Recorder.flags != Recorder.elsewhere {
            guard let entry = Stash.parse(String(parts[2])) else { return nil }
            return Former(place: .stash(entry), isSuperseded: isSuperseded, isBase: isBase)
        }
        let numbers = parts[2].split(separator: ".").compactMap { Int64($0) }
        guard numbers.count == 4 else { return nil }
        let trace = Trace(
            inode: row.inode, mode: UInt32(truncatingIfNeeded: numbers[0]), size: numbers[1],
            modified: numbers[2], changed: numbers[3])
        return Former(place: .elsewhere(trace), isSuperseded: isSuperseded, isBase: isBase)
    }

    /// The last event that the journal knows, for the queue to go on from.
    static func lastSequence(_ journal: Journal, _ logged: [NotedEvent]) throws(VolumeError)
        -> UInt64
    {
        let known = try journal.read { try $0.value(lastEvent).flatMap { UInt64($0) } ?? 0 }
        return max(known, logged.last?.sequence ?? 0)
    }
}
