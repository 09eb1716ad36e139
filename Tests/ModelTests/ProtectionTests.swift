import Testing

@testable import Model

@Suite struct ProtectionTests {
    private let stranger = Requester(uid: 9, gid: 9)

    private func list(_ entries: [(tag: UInt8, permissions: UInt8, id: UInt8)]) -> [UInt8] {
        [2, 0, 0, 0]
            + entries.flatMap { [$0.tag, 0, $0.permissions, 0, $0.id, 0, 0, 0] }
    }

    @Test func theModeDecidesByOneClassAlone() {
        let file = Protection(owner: 1, group: 2, mode: 0o604)
        #expect(file.allowsReading(by: Requester(uid: 1, gid: 1)))
        #expect(!file.allowsReading(by: Requester(uid: 9, gid: 2)))
        #expect(!file.allowsReading(by: Requester(uid: 9, gid: 9, groups: [2])))
        #expect(file.allowsReading(by: stranger))
        let unreadable = Protection(owner: 1, group: 2, mode: 0o044)
        #expect(!unreadable.allowsReading(by: Requester(uid: 1, gid: 2)))
        #expect(Protection(owner: 1, group: 2, mode: 0).allowsReading(by: .root))
    }

    @Test func anAccessControlListDecidesByItsEntries() {
        let entries: [(tag: UInt8, permissions: UInt8, id: UInt8)] = [
            (1, 6, 0), (2, 4, 10), (2, 0, 11), (2, 2, 12), (4, 0, 0), (8, 4, 20), (16, 4, 0),
            (32, 4, 0),
        ]
        let file = Protection(owner: 1, group: 2, mode: 0o644, accessList: list(entries))
        #expect(file.allowsReading(by: Requester(uid: 10, gid: 2)))
        #expect(!file.allowsReading(by: Requester(uid: 11, gid: 20)))
        #expect(!file.allowsReading(by: Requester(uid: 12, gid: 9)))
        #expect(!file.allowsReading(by: Requester(uid: 9, gid: 2)))
        #expect(file.allowsReading(by: Requester(uid: 9, gid: 2, groups: [20])))
        #expect(file.allowsReading(by: stranger))
        // The mask limits all entries except those of the owner and of others.
        let masked = entries.map { $0.tag == 16 ? (tag: 16, permissions: 0, id: 0) : $0 }
        let closed = Protection(owner: 1, group: 2, mode: 0o604, accessList: list(masked))
        #expect(!closed.allowsReading(by: Requester(uid: 10, gid: 9)))
        #expect(!closed.allowsReading(by: Requester(uid: 9, gid: 20)))
        #expect(closed.allowsReading(by: stranger))
        // An invalid list allows nobody to read.
        let damaged = Protection(owner: 1, group: 2, mode: 0o644, accessList: [2, 0, 0])
        #expect(!damaged.allowsReading(by: stranger))
        #expect(damaged.allowsReading(by: Requester(uid: 1, gid: 1)))
    }

    private func version(_ protection: Protection?, saved: Int64 = 0) -> Version {
        Version(
            number: 1, device: .random(), deviceName: "", person: "", program: "", name: Name("a"),
            size: 0, modified: 0, saved: saved,
            content: Digest(.sha256, words: (0, 0, 0, 0)),
            protection: protection)
    }

    @Test func aVersionIsVisibleToItsOwnReaders() {
        func document(_ protection: Protection) -> DocumentProtection {
            DocumentProtection(now: protection, directories: .unknown)
        }
        let mine = Protection(owner: 1, group: 1, mode: 0o644)
        let theirs = Protection(owner: 2, group: 2, mode: 0o644)
        let (one, two) = (Requester(uid: 1, gid: 1), Requester(uid: 2, gid: 2))
        // A user whose document has replaced a private one of another user does not see the
        // versions of that one.
        #expect(!version(mine.ownerOnly).isVisible(to: two, of: document(theirs)))
        #expect(version(mine.ownerOnly).isVisible(to: one, of: document(theirs)))
        #expect(version(mine).isVisible(to: stranger, of: document(theirs)))
        // If a document was made private, its old versions are hidden, too, but not from their
        // owner.
        #expect(!version(mine).isVisible(to: stranger, of: document(mine.ownerOnly)))
        #expect(version(mine).isVisible(to: one, of: document(theirs.ownerOnly)))
        // The owner of this version was not recorded.
        #expect(version(nil).isVisible(to: one, of: document(mine)))
        #expect(!version(nil).isVisible(to: stranger, of: document(mine)))
        #expect(version(nil).isVisible(to: .root, of: document(mine)))
    }

    @Test func aVersionIsVisibleToWhomItsDirectoriesAdmitted() {
        let open = Protection(owner: 1, group: 1, mode: 0o644)
        func directory(_ mode: UInt16, since: Int64) -> DirectoryProtections.Period {
            .init(since: since, protection: Protection(owner: 1, group: 1, mode: mode))
        }
        let above = [directory(0o755, since: 0)]
        let periods = [
            directory(0o700, since: 10), directory(0o711, since: 20), directory(0o700, since: 30),
            directory(0o755, since: 40),
        ]
        let document = DocumentProtection(
            now: open, directories: DirectoryProtections([periods, above, []]))
        let versions = [5, 12, 15, 25, 32, 35, 45].map { version(open, saved: $0) }
        // The versions of 15 and 35 were still current when the directory was opened.
        #expect(versions.visible(to: stranger, of: document) == [2, 3, 5, 6])
        #expect(versions.visible(to: .root, of: document) == Array(versions.indices))
        #expect(
            versions.visible(to: Requester(uid: 1, gid: 1), of: document)
                == Array(versions.indices))
        for (time, admits, lists) in [
            (0, false, false), (10, false, false), (19, false, false), (20, true, false),
            (30, false, false), (40, true, true), (99, true, true),
        ] {
            let time = Int64(time)
            #expect(document.directories.admitted(stranger, during: time...time) == admits)
            #expect(document.directories.allowedListing(by: stranger, at: time) == lists)
        }
        let closed = DocumentProtection(
            now: open, directories: DirectoryProtections([periods, [directory(0o700, since: 0)]]))
        #expect(versions.visible(to: stranger, of: closed) == [])
    }
}
