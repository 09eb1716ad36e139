import Journal
import Model
import Testing

struct ItemTests {
    let scratch: Scratch
    let journal: Journal

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
    }

    @Test func valuesAreSetReplacedAndRemoved() throws {
        try journal.write { transaction in
            try transaction.set("volume", to: "a")
            try transaction.set("volume", to: "ü\u{0}b")
            try transaction.set("empty", to: "")
            try transaction.set("gone", to: "x")
            try transaction.set("gone", to: nil)
        }
        try journal.read { (reader) throws in
            #expect(try reader.value("volume") == "ü\u{0}b")
            #expect(try reader.value("empty") == "")
            #expect(try reader.value("gone") == nil)
        }
    }

    @Test func aNewJournalHasItsRootAndTakesNoSecondOne() throws {
        let root = try #require(try journal.read { try $0.item(Item.root) })
        #expect(root.key == 1 && root.parent == 0 && root.kind == .directory)
        #expect(root.name.bytes.isEmpty)
        #expect(try journal.read { try $0.itemCount() } == 1)
        let another = Item(parent: 0, name: Name("r"), kind: .directory)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.insert(another) }
            } == .invalid)
        var changed = root
        changed.id = .random()
        changed.inode = 99
        var gone = root
        gone.deleted = 5
        let refused = gone
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.update(refused) }
            } == .invalid)
        try journal.write { try $0.update(changed) }
        #expect(try journal.read { try $0.item(id: changed.id) } == changed)
    }

    @Test func everyFieldComesBack() throws {
        var item = Item(
            parent: Item.root, name: Name(bytes: [0xFF, 0x80, 0x0A, 0x20]), kind: .package,
            inode: .max, birth: -1, size: .max, modified: .min, changed: .max, deleted: nil,
            latest: 41, current: .random(), inPlace: 3)
        item.key = try journal.write { try $0.insert(item) }
        #expect(item.key > Item.root)
        try journal.read { (reader) throws in
            #expect(try reader.item(item.key) == item)
            #expect(try reader.item(id: item.id) == item)
            #expect(try reader.item(parent: Item.root, name: item.name) == item)
            #expect(try reader.items(inode: .max) == [item])
        }
        for kind in Item.Kind.allCases {
            item.kind = kind
            item.deleted = kind == .special ? 5 : nil
            item.current = nil
            try journal.write { try $0.update(item) }
            #expect(try journal.read { try $0.item(item.key) } == item)
        }
    }

    /// An update runs another statement when no indexed column changes.
    @Test func everyFieldCanBeUpdatedAlone() throws {
        let changes: [(inout Item) -> Void] = [
            { $0.id = .random() }, { $0.parent = 900 }, { $0.name = Name("other") },
            { $0.kind = .symlink }, { $0.inode = 8 }, { $0.birth = 8 }, { $0.size = 8 },
            { $0.modified = 8 }, { $0.changed = 8 }, { $0.deleted = 8 }, { $0.deleted = 9 },
            { $0.deleted = nil }, { $0.latest = 8 }, { $0.current = .random() },
            { $0.current = nil }, { $0.inPlace = 8 }, { _ in },
        ]
        var item = file("a", inode: 7)
        item.key = try journal.write { try $0.insert(item) }
        let bystander = try journal.write { try $0.insert(file("b", inode: 7)) }
        let untouched = try journal.read { try $0.item(bystander) }
        for change in changes {
            change(&item)
            let next = item
            try journal.write { try $0.update(next) }
            #expect(try journal.read { try $0.item(next.key) } == next)
        }
        #expect(try journal.read { try $0.item(bystander) } == untouched)
        #expect(journal.integrityProblems().isEmpty)
    }

    @Test func whatIsMissingIsNilOrNotFound() throws {
        try journal.read { (reader) throws in
            #expect(try reader.item(77) == nil)
            #expect(try reader.item(id: .random()) == nil)
            #expect(try reader.item(parent: Item.root, name: Name("x")) == nil)
            #expect(try reader.items(inode: 5).isEmpty)
            #expect(try reader.children(of: 77).isEmpty)
        }
        var stranger = file("x")
        stranger.key = 77
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.update(stranger) }
            } == .notFound)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.removeRow(77) }
            } == .notFound)
    }

    @Test func aliveNamesAreUniqueInADirectory() throws {
        try journal.write { transaction in
            let folder = try transaction.insert(directory("d"))
            try transaction.insert(file("a"))
            try transaction.insert(file("a", in: folder))
            try transaction.insert(file("a", deleted: 1))
            try transaction.insert(file("a", deleted: 1))
        }
        let twin = file("a")
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.insert(twin) }
            } == .invalid)
        // Undeleting an item beside an alive one of the same name is refused, too, and the
        // transaction can continue after it.
        try journal.write { transaction in
            var dead = try #require(
                try transaction.deletedItem(parent: Item.root, name: Name("a")))
            dead.deleted = nil
            #expect(throws: VolumeError.self) { try transaction.update(dead) }
            dead.name = Name("a (restored)")
            try transaction.update(dead)
        }
        let names = try journal.read { try $0.children(of: Item.root).map(\.name.text) }
        #expect(names == ["a", "a (restored)", "d"])
    }

    @Test func aNameMayNotBeEmpty() {
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.insert(file("")) }
            } == .invalid)
    }

    @Test func hardLinksShareAnInodeAndDeletedNamesDoNotCount() throws {
        try journal.write { transaction in
            try transaction.insert(file("a", inode: 9))
            try transaction.insert(file("b", inode: 9))
            try transaction.insert(file("c", inode: 9, deleted: 4))
            try transaction.insert(file("d", inode: 0))
        }
        try journal.read { (reader) throws in
            #expect(try reader.items(inode: 9).map(\.name.text) == ["a", "b"])
            #expect(try reader.items(inode: 0).isEmpty)
        }
    }

    @Test func deletedTwinsComeNewestFirst() throws {
        try journal.write { transaction in
            for time: Int64 in [20, 40, 10, 40] {
                try transaction.insert(file("twin", inode: UInt64(time), deleted: time))
            }
            try transaction.insert(file("other", deleted: 30))
            try transaction.insert(file("alive"))
            try transaction.insert(file("twin"))
        }
        try journal.read { (reader) throws in
            let deleted = try reader.deletedItems(in: Item.root)
            #expect(deleted.map(\.deleted) == [40, 40, 30, 20, 10])
            #expect(deleted[0].key > deleted[1].key)
            #expect(try reader.deletedItem(parent: Item.root, name: Name("twin")) == deleted[0])
            #expect(try reader.deletedItem(parent: Item.root, name: Name("alive")) == nil)
            #expect(try reader.deletedItems(before: 30).map(\.deleted) == [10, 20])
            #expect(try reader.itemCount() == 3)
        }
    }

    @Test func keysAreNeverGivenTwice() throws {
        let first = try journal.write { try $0.insert(file("a")) }
        try journal.write { try $0.removeRow(first) }
        try journal.close()
        let again = try Journal.open(path: scratch.path)
        #expect(try again.write { try $0.insert(file("a")) } > first)
    }

    @Test func rowsInUseAreNotRemoved() throws {
        let (folder, child, dead, document) = try journal.write { transaction in
            let folder = try transaction.insert(directory("d"))
            let other = try transaction.insert(directory("e"))
            let child = try transaction.insert(file("a", in: folder))
            _ = try transaction.insert(file("a", in: other, deleted: 1))
            let document = try transaction.insert(file("doc"))
            try transaction.insert(version(1), of: document, manifest: [1])
            return (folder, child, other, document)
        }
        for key in [Item.root, folder, dead, document] {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try journal.write { try $0.removeRow(key) }
                } == .invalid)
        }
        try journal.write { transaction in
            try transaction.removeRow(child)
            try transaction.removeRow(folder)
        }
        #expect(try journal.read { try $0.item(folder) } == nil)
        #expect(journal.integrityProblems().isEmpty)
    }

    @Test func childrenAreSortedByBytesAndCountless() throws {
        let count = 1300
        try journal.write { transaction in
            for index in 0..<count { try transaction.insert(file("n\(index)")) }
            try transaction.insert(
                Item(parent: Item.root, name: Name(bytes: [0xFF]), kind: .file))
            try transaction.insert(file("gone", deleted: 1))
        }
        try journal.read { (reader) throws in
            let all = try reader.children(of: Item.root)
            #expect(all.map(\.name) == all.map(\.name).sorted())
            #expect(all.count == count + 1 && all.last?.name.bytes == [0xFF])
            var visited: [Item] = []
            try reader.forEachChild(of: Item.root) { visited.append($0) }
            #expect(visited == all)
        }
    }

    @Test func aWalkMayWriteAndStopsAtAnError() throws {
        struct Enough: Error {}
        try journal.write { transaction in
            for index in 0..<1100 { try transaction.insert(file("n\(index)")) }
            try transaction.forEachChild(of: Item.root) { child in
                var child = child
                child.deleted = 8
                try transaction.update(child)
            }
        }
        try journal.read { (reader) throws in
            #expect(try reader.itemCount() == 1)
            var count = 0
            try reader.forEachItem { _ in count += 1 }
            #expect(count == 1101)
            count = 0
            #expect(throws: Enough.self) {
                try reader.forEachItem { _ in
                    count += 1
                    if count == 600 { throw Enough() }
                }
            }
            #expect(count == 600)
        }
    }

    @Test func pathsLeadFromTheRoot() throws {
        let (folder, leaf) = try journal.write { transaction in
            let folder = try transaction.insert(directory("a"))
            let inner = try transaction.insert(directory("b", in: folder))
            return (folder, try transaction.insert(file("c", in: inner)))
        }
        try journal.read { (reader) throws in
            #expect(try reader.path(of: Item.root) == [])
            #expect(try reader.path(of: folder) == [Name("a")])
            #expect(try reader.path(of: leaf) == [Name("a"), Name("b"), Name("c")])
            #expect(try reader.path(of: 77) == nil)
        }
    }

    @Test func pathsEndInSpiteOfACycleAndAnOrphan() throws {
        try journal.write { transaction in
            let outer = try transaction.insert(directory("outer"))
            let inner = try transaction.insert(directory("inner", in: outer))
            let leaf = try transaction.insert(file("leaf", in: inner))
            var moved = try #require(try transaction.item(outer))
            moved.parent = inner
            try transaction.update(moved)
            var narcissus = try #require(
                try transaction.item(try transaction.insert(directory("self"))))
            narcissus.parent = narcissus.key
            try transaction.update(narcissus)
            let orphan = try transaction.insert(file("orphan", in: 4711))
            for key in [outer, inner, leaf, narcissus.key, orphan] {
                #expect(try transaction.path(of: key) == nil)
            }
        }
    }
}
