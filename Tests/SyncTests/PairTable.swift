/// An item in a pair's directory. Its id is constant, whatever its name becomes.
struct PairItem: Equatable, Sendable {
    enum Kind: String, Sendable { case file, directory, package, symlink }

    var kind: Kind
    /// The id of its directory; empty for the pair's directory.
    var parent: String
    var name: String
    /// The contents, or a symbolic link's target.
    var text = ""
    var conflicts: [String] = []
    var mode = 0o600
    /// The extended attribute `user.note`.
    var note: String?
    /// The item of which it became another name (a hard link).
    var linkedTo: String?
    /// The device whose name is in the alternative name.
    var placedOn = 0
}

/// One change of a register of an item, as one device wants it.
enum PairEffect: Sendable {
    case save(String, String)
    case place(String, in: String, as: String)
    case delete(String)
    case mode(String, Int)
    case note(String, String?)
    case create(String, PairItem)
}

/// All changes that one device wants, by item and register.
struct PairWishes {
    var device: Int
    var texts: [String: String] = [:]
    var places: [String: (parent: String, name: String)] = [:]
    var modes: [String: Int] = [:]
    var notes: [String: String?] = [:]
    var deleted: Set<String> = []
    var created: [(id: String, item: PairItem)] = []

    /// A device that deletes a directory deletes everything that it sees in it.
    init(_ device: Int, _ effects: [PairEffect], _ base: [String: PairItem]) {
        self.device = device
        for effect in effects {
            switch effect {
            case .save(let id, let text): texts[id] = text
            case .place(let id, let parent, let name): places[id] = (parent, name)
            case .mode(let id, let mode): modes[id] = mode
            case .note(let id, let note): notes[id] = .some(note)
            case .create(let id, var item):
                item.placedOn = device
                created.append((id, item))
            case .delete(let id):
                let inside = base.filter { $0.value.parent == id }.map(\.key)
                for gone in [id] + inside {
                    deleted.insert(gone)
                    (texts[gone], places[gone]) = (nil, nil)
                }
            }
        }
    }

    /// Returns whether a deletion that has not seen the item gives way: contents and places count,
    /// attributes do not (rows 4 to 6).
    func wants(_ id: String) -> Bool { texts[id] != nil || places[id] != nil }
}

/// A second implementation of the decision table, written from the rows of DecisionTable.md and not
/// from the code: the result when two devices meet that did not see each other's changes. Each
/// register is decided separately; the order of arrival matters only for names and cycles.
struct PairTable {
    private(set) var items: [String: PairItem]
    private let base: [String: PairItem]
    private let first: PairWishes
    private let second: PairWishes
    /// Items that now have another id, because both devices created the same folder or file.
    private var aliases: [String: String] = [:]
    /// The order in which items came to their names; 0 if they had them from the beginning.
    private var ranks: [String: Int] = [:]

    /// - Parameter newer: The device that made all of its changes after the other one.
    init(_ base: [String: PairItem], first: PairWishes, second: PairWishes, newer: Int) {
        (items, self.base, self.first, self.second) = (base, base, first, second)
        let (new, old) = first.device == newer ? (first, second) : (second, first)
        decideContents(new, old)
        decideAttributes(new, old)
        decidePlaces(new, old)
        create()
        decideLinks()
        breakCycle()
        decideLife()
        decideNames()
    }

    // MARK: Registers

    /// Rows 1, 2 and 22.
    private mutating func decideContents(_ new: PairWishes, _ old: PairWishes) {
        for id in base.keys {
            guard let text = new.texts[id] ?? old.texts[id] else { continue }
            items[id]?.text = text
            if let other = old.texts[id], other != text { items[id]?.conflicts = [other] }
        }
    }

    /// Row 24. Two names that are one file on the device that linked them share attributes: what
    /// arrives for one name is sent for the other one.
    private mutating func decideAttributes(_ new: PairWishes, _ old: PairWishes) {
        for id in base.keys {
            if let mode = new.modes[id] ?? old.modes[id] { items[id]?.mode = mode }
            if let note = new.notes[id] ?? old.notes[id] { items[id]?.note = note }
        }
    }

    /// New contents arrive as a new file, and the other name keeps its old contents.
    private mutating func decideLinks() {
        for id in items.keys {
            guard let file = items[id]?.linkedTo, first.texts[file] == nil,
                second.texts[file] == nil, let linked = items[file]
            else { continue }
            (items[id]!.mode, items[id]!.note) = (linked.mode, linked.note)
        }
    }

    /// Row 16.
    private mutating func decidePlaces(_ new: PairWishes, _ old: PairWishes) {
        for id in base.keys {
            for wishes in [old, new] {
                guard let place = wishes.places[id] else { continue }
                items[id]?.parent = place.parent
                items[id]?.name = place.name
                items[id]?.placedOn = wishes.device
                ranks[id] = wishes.device == first.device ? 1 : 2
            }
        }
    }

    /// Rows 11 and 12: the same folder, the same contents or the same link under one name is one
    /// item. So an item that is created later is unified with an equal one under its name, however
    /// that one came there.
    private mutating func create() {
        for (wishes, rank) in [(first, 1), (second, 2)] {
            for (id, item) in wishes.created {
                var item = item
                item.parent = aliases[item.parent] ?? item.parent
                let twin = items.first { ranks[$0.key] == 1 && $0.value.isLike(item) }
                if rank == 2, let twin {
                    aliases[id] = twin.key
                } else {
                    items[id] = item
                    ranks[id] = rank
                }
            }
        }
        items = items.mapValues { item in
            var item = item
            item.parent = aliases[item.parent] ?? item.parent
            return item
        }
    }

    /// Row 18: the move that would close the cycle is not made.
    private mutating func breakCycle() {
        for id in second.places.keys where ranks[id] == 2 {
            var next = items[id]!.parent
            while next != "", next != id { next = items[next]!.parent }
            guard next == id else { continue }
            let stays = base[id]!
            (items[id]!.parent, items[id]!.name) = (stays.parent, stays.name)
            items[id]!.placedOn = stays.placedOn
            ranks[id] = 0
        }
    }

    // MARK: Life

    /// Rows 4 to 10: items that the deleting device had not seen stay, with the folders above them;
    /// a moved folder keeps everything that moved with it.
    private mutating func decideLife() {
        var alive = Set(items.keys.filter { !isDeleted($0) })
        for id in alive {
            var next = items[id]!.parent
            while next != "" {
                alive.insert(next)
                next = items[next]!.parent
            }
        }
        for id in base.keys where first.deleted.contains(id) && ranks[id] == nil { ranks[id] = 2 }
        items = items.filter { alive.contains($0.key) }
    }

    private func isDeleted(_ id: String) -> Bool {
        for (mine, other) in [(first, second), (second, first)] where mine.deleted.contains(id) {
            if other.deleted.contains(id) { return true }
            let folder = base[id]!.parent
            let isCarried = mine.deleted.contains(folder) && other.places[folder] != nil
            return !other.wants(id) && !isCarried
        }
        return false
    }

    // MARK: Names

    /// Rows 13 to 15: the first item keeps the name, and the later one gets its alternative name.
    private mutating func decideNames() {
        let claims = Dictionary(grouping: items.keys) { [items[$0]!.parent, items[$0]!.name] }
        for ids in claims.values where ids.count > 1 {
            let inOrder = ids.sorted { (ranks[$0] ?? 0) < (ranks[$1] ?? 0) }
            for id in inOrder.dropFirst() {
                let parts = items[id]!.name.split(separator: ".", maxSplits: 1)
                let mark = " (dev\(items[id]!.placedOn))"
                items[id]!.name = parts[0] + mark + parts.dropFirst().map { ".\($0)" }.joined()
            }
        }
    }

    // MARK: The visible result

    /// Returns one line for each item, in the form of `PairDesk.seen`.
    static func lines(_ items: [String: PairItem]) -> Set<String> {
        Set(
            items.keys.map { id in
                var path = items[id]!.name
                var next = items[id]!.parent
                while next != "" {
                    path = "\(items[next]!.name)/\(path)"
                    next = items[next]!.parent
                }
                return items[id]!.line(at: path)
            })
    }
}

extension PairItem {
    fileprivate func isLike(_ other: PairItem) -> Bool {
        guard kind == other.kind, parent == other.parent, name == other.name else { return false }
        return kind == .directory || text == other.text
    }

    func line(at path: String) -> String {
        switch kind {
        case .directory: return "\(path)/"
        case .symlink: return "\(path) -> \(text)"
        case .package: return "\(path) [\(text)] \(conflicts)"
        case .file:
            return "\(path) \(String(mode, radix: 8)) '\(text)' \(note ?? "-") \(conflicts)"
        }
    }
}
