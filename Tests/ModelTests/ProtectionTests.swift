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

    private func version(_ protection: Protection?) -> Version {
        Version(
            number: 1, device: .random(), deviceName: "", person: "", program: "", name: Name("a"),
            size: 0, modified: 0, saved: 0,
            content: Digest(.sha256, words: (0, 0, 0, 0)),
            protection: protection)
    }

    @Test func aVersionIsVisibleToItsOwnReaders() {
        let mine = Protection(owner: 1, group: 1, mode: 0o644)
        let theirs = Protection(owner: 2, group: 2, mode: 0o644)
        let (one, two) = (Requester(uid: 1, gid: 1), Requester(uid: 2, gid: 2))
        // A user whose document has replaced a private one of another user does not see the
        // versions of that one.
        #expect(!version(mine.ownerOnly).isVisible(to: two, of: theirs))
        #expect(version(mine.ownerOnly).isVisible(to: one, of: theirs))
        #expect(version(mine).isVisible(to: stranger, of: theirs))
        // If a document was made private, its old versions are hidden, too, but not from their
        // owner.
        #expect(!version(mine).isVisible(to: stranger, of: mine.ownerOnly))
        #expect(version(mine).isVisible(to: one, of: theirs.ownerOnly))
        // The owner of this version was not recorded.
        #expect(version(nil).isVisible(to: one, of: mine))
        #expect(!version(nil).isVisible(to: stranger, of: mine))
        #expect(version(nil).isVisible(to: .root, of: mine))
    }
}
