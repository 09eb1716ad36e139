import Journal
import Model

// A prior content as a row of the journal. The row is written in the same transaction as the event
// that displaced the content, so the next daemon knows what a killed one had processed.
extension PriorContent {
    private enum Flag {
        static let saved: UInt8 = 1
        static let superseded: UInt8 = 2
        static let base: UInt8 = 4
        static let recovered: UInt8 = 8
        static let late: UInt8 = 16
        static let unseen: UInt8 = 32
        static let apart: UInt8 = 64
    }

    /// The prefix of the names of all rows of one item.
    static func rowPrefix(_ key: Int64) -> String {
        let text = String(key, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text + "/"
    }

    func row(of key: Int64, index: Int) -> StashEntry {
        var flags: UInt8 = 0
        if save != nil { flags |= Flag.saved }
        if isSuperseded { flags |= Flag.superseded }
        if isBase { flags |= Flag.base }
        if isRecovered { flags |= Flag.recovered }
        if isLate { flags |= Flag.late }
        if isUnseen { flags |= Flag.unseen }
        if mergesOnlyManually { flags |= Flag.apart }
        let spot: String
        switch place {
        case .stash(let entry): spot = entry.file
        case .elsewhere(let snapshot):
            spot = "\(snapshot.inode),\(snapshot.size),\(snapshot.modified)"
        }
        let name = PriorContent.rowPrefix(key) + "\(index)/\(base?.description ?? "")/\(spot)"
        return StashEntry(
            name: name, inode: inode, item: key, kind: flags, saved: save?.time,
            actor: save?.actor ?? Actor(process: 0, uid: 0, program: ""), recorded: Int64(index))
    }

    /// Returns nil for a row that cannot be parsed.
    init?(_ row: StashEntry) {
        let parts = row.name.split(
            separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        if let entry = Stash.parse(String(parts[3])) {
            place = .stash(entry)
        } else {
            let numbers = parts[3].split(separator: ",")
            guard numbers.count == 3, let inode = UInt64(numbers[0]), let size = Int64(numbers[1]),
                let modified = Int64(numbers[2])
            else { return nil }
            place = .elsewhere(
                FileSnapshot(
                    inode: inode, mode: 0o100644, size: size, modified: modified, changed: 0))
        }
        if row.kind & Flag.saved != 0, let time = row.saved {
            save = PendingDocument.Save(actor: row.actor, time: time)
        }
        isSuperseded = row.kind & Flag.superseded != 0
        isBase = row.kind & Flag.base != 0
        isRecovered = row.kind & Flag.recovered != 0
        isLate = row.kind & Flag.late != 0
        isUnseen = row.kind & Flag.unseen != 0
        mergesOnlyManually = row.kind & Flag.apart != 0
        base = Identifier(String(parts[2]))
    }
}
