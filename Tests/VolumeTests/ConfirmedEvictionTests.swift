import Model
import Synchronization
import Testing

@testable import Volume

/// The cache limit evicts only contents that the present hub has.
@Suite struct ConfirmedEvictionTests {
    @Test func theLimitEvictsOnlyConfirmedContents() throws {
        var settings = ProgramTree.fast
        settings.cacheBytesMax = 1
        settings.evictionSeconds = 3600
        let tree = try ProgramTree(settings: settings)
        try tree.save("a", String(repeating: "a", count: 50_000), by: Program(process: 1))
        #expect(tree.quiet())
        let version = try #require(try tree.item("a")?.current)
        let journal = tree.volume.journal
        try journal.write { try $0.setDurability([version], to: .hub) }
        let (volume, epoch) = (Identifier(high: 1, low: 1), Identifier(high: 1, low: 2))
        func expectKept() throws {
            #expect(try tree.volume.eviction.evictExcess() == 0)
            #expect(throws: VolumeError.self) { try tree.volume.eviction.evict(at: names("a")) }
            #expect(tree.contents("a") == Array(repeating: UInt8(ascii: "a"), count: 50_000))
        }
        try journal.write { try $0.removeCurrentHub() }
        try expectKept()
        try journal.write { try $0.setCurrentHub(volume: .random(), epoch: epoch) }
        try expectKept()
        try journal.write { try $0.setCurrentHub(volume: volume, epoch: .random()) }
        try expectKept()
        try journal.write { try $0.setCurrentHub(volume: volume, epoch: epoch) }
        #expect(try tree.volume.eviction.evictExcess() > 0)
    }

    /// The limit leaves out what programs need, as an eviction on request does. They are asked only
    /// about what could be evicted.
    @Test func neitherTheLimitNorARequestEvictsWhatProgramsShow() throws {
        var settings = ProgramTree.fast
        settings.cacheBytesMax = 1
        settings.evictionSeconds = 3600
        let tree = try ProgramTree(settings: settings)
        let asked = Mutex<[String]>([])
        tree.volume.eviction.obstacle.set { path in
            asked.withLock { $0.append(path.shown) }
            return path == names("shown") ? "is shown" : nil
        }
        for name in ["shown", "other", "new"] {
            try tree.save(name, String(repeating: "a", count: 50_000), by: Program(process: 1))
        }
        #expect(tree.quiet())
        let versions = try ["shown", "other"].map { try #require(try tree.item($0)?.current) }
        try tree.volume.journal.write { try $0.setDurability(versions, to: .hub) }
        func isHere(_ name: String) throws -> Bool {
            let key = try #require(try tree.item(name)).key
            return try tree.volume.journal.read { try $0.absentVersion(of: key) == nil }
        }
        #expect(try tree.volume.eviction.evictExcess() == 50_000)
        #expect(try isHere("shown") && !isHere("other"))
        let error = #expect(throws: VolumeError.self) {
            try tree.volume.eviction.evict(at: names("shown"))
        }
        #expect(error?.code == .refused && error?.message == "shown is shown")
        #expect(try tree.volume.eviction.evict(at: []).kept.map(\.path) == [names("shown")])
        #expect(!asked.withLock { $0.contains("new") })
        #expect(try tree.volume.eviction.evict(at: names("shown"), forced: true).items == 1)
    }

    /// A file must not be evicted between the check that it is complete and the change that relies
    /// on it.
    @Test func aKeptFileIsNotEvicted() throws {
        let tree = try ProgramTree()
        try tree.save("a", String(repeating: "a", count: 50_000), by: Program(process: 1))
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        let version = try #require(item.current)
        try tree.volume.journal.write { try $0.setDurability([version], to: .hub) }
        #expect(
            tree.volume.hydration.preventEviction(item.inode)
                && tree.volume.hydration.preventEviction(item.inode))
        for _ in 0..<2 {
            #expect(throws: VolumeError.self) { try tree.volume.eviction.evict(at: names("a")) }
            tree.volume.hydration.allowEviction(item.inode)
        }
        #expect(try tree.volume.eviction.evict(at: names("a")).items == 1)
    }
}
