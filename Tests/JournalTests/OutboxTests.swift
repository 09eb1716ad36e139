import Foundation
import Model
import Testing

@testable import Journal

struct OutboxTests {
    let scratch: Scratch
    let journal: Journal

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
    }

    static let highNumbers: [UInt64] = [.max, .max - 1, 1 << 63, (1 << 63) - 1]

    private func fill() throws {
        try journal.write { t in
            for number in 1...5 {
                try t.append(
                    OutboxRow(number: UInt64(number), item: .random(), operation: [UInt8(number)]))
            }
        }
    }

    private func numbers() throws -> [UInt64] {
        try journal.read { try $0.hub.outbox(limit: .max).map(\.number) }
    }

    @Test func rowsGoUpToANumber() throws {
        try fill()
        try journal.write { try $0.removeOutbox(upTo: 0) }
        #expect(try numbers() == [1, 2, 3, 4, 5])
        try journal.write { try $0.removeOutbox(upTo: 2) }
        #expect(try numbers() == [3, 4, 5])
    }

    @Test func operationsCarryTheTokenOfTheGrantThatTheyWereMadeUnder() throws {
        let (granted, free) = (Identifier.random(), Identifier.random())
        try journal.write { t in
            try GrantRows.set(7, of: granted, t)
            try GrantRows.fence(1, of: granted, t)
            try GrantRows.fence(2, of: free, t)
            // The document is granted again, and another save gets its number.
            try GrantRows.set(9, of: granted, t)
            try GrantRows.fence(3, of: granted, t)
            try GrantRows.remove(7, of: granted, t)
        }
        try journal.close()
        let journal = try Journal.open(path: scratch.path)
        #expect(try journal.read { try $0.hub.grants().map(\.token) } == [9])
        #expect(try journal.read { try $0.hub.fences(from: 0) } == [1: 7, 3: 9])
        #expect(try journal.read { try $0.hub.fences(from: 2) } == [3: 9])
        try journal.write { t in
            try GrantRows.reassign(granted, to: free, t)
            try GrantRows.removeFences(upTo: 1, t)
        }
        #expect(try journal.read { try $0.hub.grant(of: free) } == 9)
        #expect(try journal.read { try $0.hub.fences(from: 0) } == [3: 9])
        try journal.write { t in
            try GrantRows.remove(9, of: free, t)
            try t.emptyOutbox()
        }
        #expect(try journal.read { try $0.hub.grants().isEmpty })
        #expect(try journal.read { try $0.hub.fences(from: 0).isEmpty })
        try journal.close()
    }

    /// SQLite has no unsigned integers: a number above its largest one must not become negative.
    @Test(arguments: OutboxTests.highNumbers)
    func aHighNumberIsHigherThanAll(number: UInt64) throws {
        try fill()
        #expect(try journal.read { try $0.hub.outbox(limit: .max, after: number) }.isEmpty)
        try journal.write { try $0.removeOutbox(upTo: number) }
        #expect(try numbers().isEmpty)
        let row = MirrorRow(id: .random(), remote: [1], state: .due, sequence: 7)
        let high = MirrorRow(id: .random(), remote: [1], state: .due, sequence: number)
        try journal.write { t in
            try t.set(high)
            try t.set(row)
        }
        let due = try journal.read { try $0.hub.mirrors(.due, limit: .max) }
        #expect(due.map(\.id) == [row.id, high.id])
        #expect(try journal.read { try $0.hub.firstMirror(.due) } == 7)
        #expect(try journal.read { try $0.hub.mirrors(.due, after: due[1], limit: .max) }.isEmpty)
    }

    @Test func allInodesAreFoundAgain() throws {
        for inode in [1, UInt64(Int64.max), 1 << 63, .max] {
            let key = try journal.write { try $0.insert(file("f\(inode)", inode: inode)) }
            let found = try journal.read { try $0.items(inode: inode) }
            #expect(found.map(\.key) == [key] && found.first?.inode == inode)
        }
    }

    @Test func numbersBeginAgainInAnEmptiedOutbox() throws {
        try fill()
        try journal.write { try $0.emptyOutbox() }
        #expect(try numbers().isEmpty)
        try fill()
        #expect(try numbers() == [1, 2, 3, 4, 5])
    }
    @Test func aChangeThatIsSentAgainIsAsOldAsItWas() throws {
        let key = try journal.write { t in
            let key = try t.insert(file("f", inode: 7))
            try t.addUnsent(key)
            try UnsentTimes.note(placed: 20, attributed: nil, of: key, t)
            try UnsentTimes.note(placed: 10, attributed: 5, of: key, t)
            try UnsentTimes.note(placed: nil, attributed: nil, of: key, t)
            return key
        }
        let times = try journal.read { try $0.hub.unsentTimes(key) }
        #expect(times.placed == 20 && times.attributed == 5)
    }
}
