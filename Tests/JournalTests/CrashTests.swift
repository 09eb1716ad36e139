import Foundation
import Journal
import Model
import Testing

/// What kill -9 leaves: the database and its log as they are at some moment.
struct CrashTests {
    let scratch: Scratch
    let journal: Journal
    private var copy: String { scratch.directory + "/copy.sqlite" }

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
    }

    private func copyFiles() throws {
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: copy + suffix)
            if suffix == "-shm" { continue }
            try FileManager.default.copyItem(atPath: scratch.path + suffix, toPath: copy + suffix)
        }
    }

    @Test func aTransactionCutInTheMiddleHasNotHappened() throws {
        try journal.write { try $0.insert(file("before")) }
        try journal.write { transaction in
            // This is more than SQLite's cache of 2 MB, so that some of its pages are in the log
            // already.
            let size = scratch.contents("-wal")?.count ?? 0
            for index in 0..<60_000 { try transaction.insert(file("f\(index)")) }
            #expect((scratch.contents("-wal")?.count ?? 0) > size + 1_000_000)
            try copyFiles()
        }
        let found = try Journal.open(path: copy, checked: true)
        #expect(try found.read { try $0.itemCount() } == 2)
        #expect(found.integrityProblems().isEmpty)
        try found.write { try $0.insert(file("after")) }
        try found.close()
        #expect(try journal.read { try $0.itemCount() } == 60_002)
    }

    @Test func whatWasCommittedIsThereWithoutClosing() throws {
        try journal.write { try $0.insert(file("a")) }
        try copyFiles()
        let found = try Journal.open(path: copy, checked: true)
        #expect(try found.read { try $0.itemCount() } == 2)
        try found.close()
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func aTornLogGivesAPrefixOfTheTransactions(seed: UInt64) throws {
        var random = Seeded(state: seed)
        try journal.checkpoint()
        for round in 1...30 {
            try journal.write { transaction in
                try transaction.set("left", to: "\(round)")
                for index in 0..<20 { try transaction.insert(file("\(round)-\(index)")) }
                try transaction.set("right", to: "\(round)")
            }
        }
        let log = try #require(scratch.contents("-wal"))
        var last = 0
        for length in (0..<25).map({ _ in Int.random(in: 0...log.count, using: &random) }).sorted()
        {
            try copyFiles()
            var torn = log.prefix(length)
            // The last bytes that reached the disk are not those that were written.
            if length > 64 { for index in length - 32..<length { torn[index] ^= 0x55 } }
            try torn.write(to: URL(fileURLWithPath: copy + "-wal"))
            let found = try Journal.open(path: copy, checked: true)
            let (left, right, count) = try found.read { (reader) throws in
                (
                    Int(try reader.value("left") ?? "0"), Int(try reader.value("right") ?? "0"),
                    try reader.itemCount()
                )
            }
            #expect(left == right && count == 1 + 20 * left!, "seed \(seed), \(length) bytes")
            #expect(left! >= last, "seed \(seed), \(length) bytes")
            last = left!
            try found.close()
        }
        #expect(last > 0, "seed \(seed)")
    }
}
