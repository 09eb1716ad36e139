import Foundation
import Journal
import Model
import Synchronization
import Testing

struct TransactionTests {
    let scratch: Scratch
    let journal: Journal

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
    }

    @Test func anErrorRollsEverythingBack() throws {
        struct Strange: Error {}
        do {
            try journal.write { transaction in
                try transaction.insert(file("a"))
                throw VolumeError(.timeout, "mine")
            }
            Issue.record("Nothing was thrown.")
        } catch {
            #expect(error == VolumeError(.timeout, "mine"))
        }
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { transaction in
                    try transaction.insert(file("b"))
                    throw Strange()
                }
            } == .system)
        #expect(try journal.read { try $0.itemCount() } == 1)
        #expect(journal.transactionCount == 0)
    }

    @Test func aRefusedStatementLeavesTheRestOfTheTransaction() throws {
        try journal.write { transaction in
            try transaction.insert(file("a"))
            #expect(throws: VolumeError.self) { try transaction.insert(file("a")) }
            try transaction.insert(file("b"))
        }
        #expect(try journal.read { try $0.itemCount() } == 3)
    }

    @Test func aTransactionIsOfNoUseAfterItsEnd() throws {
        var kept: Transaction?
        var reader: Reader?
        try journal.write { kept = $0 }
        try journal.read { reader = $0 }
        for stale in [kept, reader] as [Reader?] {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try stale?.itemCount()
                } == .invalid)
        }
    }

    @Test func aReaderCannotSeeWhatTheWriterDoesMeanwhile() throws {
        try journal.write { try $0.set("round", to: "0") }
        try journal.read { (reader) throws in
            #expect(try reader.value("round") == "0")
            try onAnotherThread { [journal] () throws in
                try journal.write { transaction in
                    try transaction.set("round", to: "1")
                    try transaction.insert(file("new"))
                }
                #expect(try journal.read { try $0.value("round") } == "1")
            }
            #expect(try reader.value("round") == "0")
            #expect(try reader.itemCount() == 1)
        }
        #expect(try journal.read { try $0.itemCount() } == 2)
    }

    @Test func readersWorkWhileATransactionIsOpen() throws {
        try journal.write { transaction in
            try transaction.insert(file("new"))
            try onAnotherThread { [journal] () throws in
                #expect(try journal.read { try $0.itemCount() } == 1)
            }
        }
        #expect(try journal.read { try $0.itemCount() } == 2)
    }

    @Test func manyReadersAlwaysSeeWholeTransactions() throws {
        let stop = Atomic<Bool>(false)
        try withExtendedLifetime(stop) {
            let looks = Mutex(0)
            let threads = (0..<4).map { _ in
                Thread { [journal] in
                    while !stop.load(ordering: .relaxed) {
                        let pair = try? journal.read {
                            (try $0.value("left"), try $0.value("right"))
                        }
                        #expect(pair != nil && pair?.0 == pair?.1)
                        looks.withLock { $0 += 1 }
                    }
                }
            }
            for thread in threads { thread.start() }
            for round in 0..<300 {
                try journal.write { transaction in
                    try transaction.set("left", to: "\(round)")
                    try transaction.set("right", to: "\(round)")
                }
            }
            while looks.withLock({ $0 < 100 }) { usleep(1000) }
            stop.store(true, ordering: .relaxed)
            while threads.contains(where: { !$0.isFinished }) { usleep(1000) }
        }
    }

    /// Prints the time per row. Only the numbers of a release build are meaningful.
    @Test func aHundredThousandRowsInOneTransaction() throws {
        let count = 100_000
        let keys = try measured("insert of an item", count) {
            try journal.write { transaction in
                try (0..<count).map { index in
                    try transaction.insert(file("document \(index).txt", inode: UInt64(index + 1)))
                }
            }
        }
        #expect(Set(keys).count == count)
        try journal.read { (reader) throws in
            try measured("lookup by name", count) {
                for index in 0..<count {
                    let name = Name("document \(index).txt")
                    let item = try reader.item(parent: Item.root, name: name)
                    #expect(item?.key == keys[index])
                }
            }
            try measured("lookup by key, no check", count) {
                for key in keys { _ = try reader.item(key) }
            }
            var visited = 0
            try measured("visit of a child", count) {
                try reader.forEachChild(of: Item.root) { _ in visited += 1 }
            }
            #expect(visited == count)
        }
        try updatesOfAHundredThousandRows(keys)
        try versionsAndChunks(of: keys)
        #expect(try journal.read { try $0.itemCount() } == count + 1)
        #expect(try journal.read { try $0.versionCount() } == count)
        #expect(journal.integrityProblems().isEmpty)
    }

    private func updatesOfAHundredThousandRows(_ keys: [Int64]) throws {
        let count = keys.count
        let seen = try journal.read { try $0.children(of: Item.root) }
        try measured("update of size and times", count) {
            try journal.write { transaction in
                for var item in seen {
                    item.size += 1
                    item.modified += 1
                    try transaction.update(item)
                }
            }
        }
        try measured("update of id, name and inode", count) {
            try journal.write { transaction in
                for key in keys {
                    var item = file("moved \(key)", inode: UInt64(key))
                    item.key = key
                    try transaction.update(item)
                }
            }
        }
    }

    private func versionsAndChunks(of keys: [Int64]) throws {
        let count = keys.count
        try measured("insert of a version", count) {
            try journal.write { transaction in
                for (index, key) in keys.enumerated() {
                    try transaction.insert(
                        version(1, content: UInt64(index)), of: key,
                        manifest: withUnsafeBytes(of: index) { Array($0) })
                }
            }
        }
        let place = ChunkLocation(pack: 1, offset: 2, storedLength: 3, length: 4)
        try measured("insert of a chunk", count) {
            try journal.write { transaction in
                for index in 0..<count { try transaction.setPlace(digest(UInt64(index)), place) }
            }
        }
        try measured("lookup of a chunk", count) {
            try journal.read { (reader) throws in
                for index in 0..<count { _ = try reader.place(of: digest(UInt64(index))) }
            }
        }
        try measured("read of one item, a snapshot each", 10_000) {
            for key in keys.prefix(10_000) { _ = try journal.read { try $0.item(key) } }
        }
    }

    private func measured<T>(_ what: String, _ count: Int, _ body: () throws -> T) rethrows -> T {
        let clock = ContinuousClock()
        let start = clock.now
        let result = try body()
        print("\(what): \((clock.now - start) / count)")
        return result
    }
}

private func onAnotherThread(_ body: @escaping @Sendable () throws -> Void) throws {
    let outcome = Mutex<(any Error)?>(nil)
    try withExtendedLifetime(outcome) {
        let thread = Thread {
            do { try body() } catch { outcome.withLock { $0 = error } }
        }
        thread.start()
        while !thread.isFinished { usleep(500) }
        if let error = outcome.withLock({ $0 }) { throw error }
    }
}
