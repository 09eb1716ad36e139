import Journal
import Model
import Testing

struct VersionTests {
    let scratch: Scratch
    let journal: Journal
    let document: Int64

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
        document = try journal.write { try $0.insert(file("draft.txt")) }
    }

    @Test func everyFieldComesBack() throws {
        var saved = version(3, parents: [.random(), .random()])
        saved.size = .max
        saved.name = Name(bytes: [0xC3, 0x28])
        saved.label = "Abgabe \u{0} 1"
        saved.deviceName = ""
        try journal.write { try $0.insert(saved, of: document, manifest: [1, 0, 255]) }
        try journal.read { (reader) throws in
            #expect(try reader.version(of: document, number: 3) == saved)
            let found = try #require(try reader.version(id: saved.id))
            #expect(found.item == document && found.version == saved)
            #expect(try reader.item(ofVersion: saved.id) == document)
            #expect(try reader.manifest(of: saved.id) == [1, 0, 255])
            #expect(try reader.versions(of: document) == [saved])
        }
    }

    @Test func versionsAreSortedByNumber() throws {
        try journal.write { transaction in
            for number in [3, 1, 2] {
                try transaction.insert(version(number), of: document, manifest: [])
            }
        }
        try journal.read { (reader) throws in
            #expect(try reader.versions(of: document).map(\.number) == [1, 2, 3])
            #expect(try reader.version(of: document, number: 4) == nil)
            #expect(try reader.version(id: .random()) == nil)
            #expect(try reader.item(ofVersion: .random()) == nil)
            #expect(try reader.manifest(of: .random()) == nil)
            #expect(try reader.versions(of: Item.root).isEmpty)
        }
    }

    @Test func kindLabelAndDurabilityChangeAlone() throws {
        var saved = version(1)
        let other = version(2)
        try journal.write { transaction in
            try transaction.insert(saved, of: document, manifest: [1])
            try transaction.insert(other, of: document, manifest: [1])
            try transaction.setKind(saved.id, .conflict)
            try transaction.setLabel(saved.id, "first")
            try transaction.setDurability([saved.id, .random()], to: .disk)
        }
        saved.kind = .conflict
        saved.label = "first"
        saved.durability = .disk
        #expect(try journal.read { try $0.versions(of: document) } == [saved, other])
        try journal.write { try $0.setLabel(saved.id, nil) }
        #expect(try journal.read { try $0.version(id: saved.id)?.version.label } == .some(nil))
    }

    @Test func numbersAndIDsAreGivenOnceAndAnItemIsNeeded() throws {
        let saved = version(1)
        try journal.write { try $0.insert(saved, of: document, manifest: [1]) }
        var sameID = version(2)
        sameID.id = saved.id
        for (stranger, key) in [(version(1), document), (sameID, document), (version(1), 4711)] {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try journal.write { try $0.insert(stranger, of: key, manifest: [2]) }
                } == .invalid)
        }
        // What the refused version had added was rolled back with its transaction.
        #expect(try journal.read { try $0.manifestCount() } == 1)
    }

    @Test func missingVersionsAreNotFound() {
        let verbs: [(Transaction) throws -> Void] = [
            { try $0.setKind(.random(), .current) },
            { try $0.setLabel(.random(), "x") },
            { try $0.remove(version: .random()) },
        ]
        for verb in verbs {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try journal.write { try verb($0) }
                } == .notFound)
        }
    }

    @Test func aSharedManifestGoesWithTheLastVersion() throws {
        let saved = (1...3).map { version($0) }
        let shared: [UInt8] = [1, 2, 3]
        try journal.write { transaction in
            for version in saved { try transaction.insert(version, of: document, manifest: shared) }
        }
        #expect(try journal.read { try $0.manifestCount() } == 1)
        for (index, version) in saved.enumerated() {
            #expect(try journal.read { try $0.manifest(of: version.id) } == shared)
            try journal.write { try $0.remove(version: version.id) }
            #expect(try journal.read { try $0.manifest(of: version.id) } == nil)
            #expect(try journal.read { try $0.manifestCount() } == (index == 2 ? 0 : 1))
            #expect(try journal.read { try $0.versionCount() } == 2 - index)
        }
        #expect(journal.integrityProblems().isEmpty)
    }

    @Test func equalContentsWithOtherBytesKeepTheirOwnManifests() throws {
        let touched = version(2)
        let saved = version(1)
        #expect(touched.content == saved.content)
        try journal.write { transaction in
            try transaction.insert(saved, of: document, manifest: [1])
            try transaction.insert(touched, of: document, manifest: [2])
        }
        try journal.read { (reader) throws in
            #expect(try reader.manifestCount() == 2)
            #expect(try reader.manifest(of: saved.id) == [1])
            #expect(try reader.manifest(of: touched.id) == [2])
        }
    }

    @Test func everyManifestIsVisited() throws {
        let other = try journal.write { transaction in
            for number in 1...700 {
                let bytes = [UInt8(number % 3)]
                try transaction.insert(version(number), of: document, manifest: bytes)
            }
            let other = try transaction.insert(file("gone", deleted: 4))
            try transaction.insert(version(1), of: other, manifest: [9])
            return other
        }
        var visited: [Identifier: [UInt8]] = [:]
        var items: Set<Int64> = []
        try journal.read { (reader) throws in
            try reader.forEachManifest { item, id, bytes in
                items.insert(item)
                visited[id] = bytes
            }
            #expect(items == [document, other])
            #expect(visited.count == 701)
            for version in try reader.versions(of: document) {
                #expect(visited[version.id] == [UInt8(version.number % 3)])
            }
            #expect(try reader.manifestCount() == 4)
        }
    }

    @Test func aSweepMayRemoveWhileItVisits() throws {
        try journal.write { transaction in
            for number in 1...600 {
                try transaction.insert(version(number), of: document, manifest: [1])
            }
            try transaction.forEachManifest { _, id, _ in try transaction.remove(version: id) }
            #expect(try transaction.versionCount() == 0)
            #expect(try transaction.manifestCount() == 0)
        }
    }

    @Test func aManifestOfMegabytesComesBackWhole() throws {
        var random = Seeded(state: 4)
        let manifest = (0..<3_000_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let saved = version(1)
        try journal.write { try $0.insert(saved, of: document, manifest: manifest) }
        #expect(try journal.read { try $0.manifest(of: saved.id) == manifest })
    }
}
