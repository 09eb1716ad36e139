import Model
import Reconcile

/// The hub's table in memory. It is cheap to copy. The low half of an item's id is its index.
struct Catalogue: ItemTable {
    private final class Box<Value: Sendable>: Sendable {
        let value: Value
        init(_ value: Value) { self.value = value }
    }

    private var items: [Box<ItemState>?] = []
    private var revisions: [Box<Revision>?] = []
    private(set) var aliases: [Identifier: Identifier] = [:]
    private(set) var toldAliases: [Identifier] = []

    init() {
        let nobody = OperationID(device: .root, epoch: 0, number: 0)
        put(
            ItemState(
                id: .root, kind: .directory, placement: Placement("", in: .root),
                placedBy: nobody, placedAt: Moment(time: 0, device: .root), placedSequence: 0,
                sequence: 0))
    }

    /// All items in the order of their ids, without the root.
    var all: [ItemState] { items.dropFirst().compactMap { $0?.value } }

    var allRevisions: [Revision] { revisions.compactMap { $0?.value } }

    func item(_ id: Identifier) -> ItemState? {
        id.low < UInt64(items.count) ? items[Int(id.low)]?.value : nil
    }

    func alias(of id: Identifier) -> Identifier? { aliases[id] }

    func holder(of key: NameKey, in parent: Identifier) -> Identifier? {
        for case let box? in items.dropFirst()
        where box.value.placement.parent == parent && box.value.life.isAlive
            && box.value.nameKey == key
        { return box.value.id }
        return nil
    }

    func children(of parent: Identifier) -> [Identifier] {
        var ids: [Identifier] = []
        for case let box? in items.dropFirst() where box.value.placement.parent == parent {
            ids.append(box.value.id)
        }
        return ids
    }

    func revision(_ id: Identifier) -> Revision? {
        id.low < UInt64(revisions.count) ? revisions[Int(id.low)]?.value : nil
    }

    mutating func put(_ item: ItemState) {
        let place = Int(item.id.low)
        while items.count <= place { items.append(nil) }
        items[place] = Box(item)
    }

    mutating func setAlias(of id: Identifier, to target: Identifier) {
        aliases[id] = target
        toldAliases.append(id)
    }

    mutating func record(_ revision: Revision, of item: Identifier) {
        let place = Int(revision.id.low)
        while revisions.count <= place { revisions.append(nil) }
        revisions[place] = Box(revision)
    }

    /// The first difference from another table, or nil.
    func difference(from other: Catalogue) -> String? {
        if aliases != other.aliases { return "aliases differ" }
        for place in 0..<max(items.count, other.items.count) {
            let mine = place < items.count ? items[place] : nil
            let theirs = place < other.items.count ? other.items[place] : nil
            if mine !== theirs, mine?.value != theirs?.value { return "item \(place) differs" }
        }
        return nil
    }

    /// The items that differ from those in `other`.
    func changed(since other: Catalogue) -> [(before: ItemState?, after: ItemState)] {
        var changed: [(ItemState?, ItemState)] = []
        for (place, box) in items.enumerated() {
            let old = place < other.items.count ? other.items[place] : nil
            if let box, box !== old { changed.append((old?.value, box.value)) }
        }
        return changed
    }
}

extension Placement {
    /// In the tests the key of a name is its bytes.
    init(_ name: String, in parent: Identifier) {
        let ending = Name(name).fileExtension
        let stem = name.dropLast(ending.isEmpty ? 0 : ending.count + 1)
        let spare = String(stem) + " (2)" + String(name.dropFirst(stem.count))
        self.init(
            parent: parent, name: name, key: NameKey(Array(name.utf8)), spare: spare,
            spareKey: NameKey(Array(spare.utf8)))
    }
}

extension Identifier {
    static func item(_ number: Int) -> Identifier {
        Identifier(high: UInt64(number) << 32 | 1, low: UInt64(number))
    }
    static func revision(_ number: Int) -> Identifier { Identifier(high: 2, low: UInt64(number)) }
    static func device(_ number: Int) -> Identifier {
        Identifier(high: 3, low: UInt64(number))
    }
}

extension Digest {
    static func content(_ number: Int) -> Digest {
        Digest(.sha256, words: (UInt64(number), 0, 0, 0))
    }
}

extension ItemState {
    var versions: [Revision] { (current.map { [$0] } ?? []) + conflicts }

    var batch: OperationID? {
        if case .trashed(let batch, _) = life { batch } else { nil }
    }
}
