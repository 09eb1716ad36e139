import Model
import Support
import Testing

@testable import Reconcile

/// Values are encoded and decoded, and random bytes are decoded.
@Suite struct CodingTests {
    @Test func whatIsWrittenIsRead() {
        var random = SeededRandom(named: "Coding")
        for _ in 0..<2_000 {
            let item = random.item()
            #expect(ItemState(encoded: item.encoded) == item)
            let revision = random.revision()
            #expect(Revision(encoded: revision.encoded) == revision)
            let operation = random.operation()
            #expect(Operation(encoded: operation.encoded) == operation)
        }
    }

    @Test func equalItemsHaveEqualBytes() {
        var random = SeededRandom(named: "Coding, equal")
        for _ in 0..<200 {
            var item = random.item()
            let bytes = item.encoded
            let attributes = item.attributes.sorted { $0.key > $1.key }
            item.attributes = [:]
            for (name, register) in attributes { item.attributes[name] = register }
            #expect(item.encoded == bytes)
        }
    }

    @Test func aPartIsNothing() {
        var random = SeededRandom(named: "Coding, truncated")
        for _ in 0..<20 {
            let (item, operation) = (random.item().encoded, random.operation().encoded)
            let revision = random.revision().encoded
            for end in item.indices { #expect(ItemState(encoded: Array(item[..<end])) == nil) }
            for end in operation.indices {
                #expect(Operation(encoded: Array(operation[..<end])) == nil)
            }
            for end in revision.indices {
                #expect(Revision(encoded: Array(revision[..<end])) == nil)
            }
            #expect(ItemState(encoded: item + [0]) == nil)
            #expect(Operation(encoded: operation + [0]) == nil)
            #expect(Revision(encoded: revision + [0]) == nil)
        }
    }

    /// Decoding random bytes gives another value or nil, and a decoded value can be encoded and
    /// decoded again.
    @Test func garbageIsReadWithoutATrap() {
        var random = SeededRandom(named: "Coding, garbage")
        for _ in 0..<8_000 {
            var bytes = random.oneIn(2) ? random.item().encoded : random.operation().encoded
            for _ in 0...random.below(4) {
                bytes[1 + random.below(bytes.count - 1)] = UInt8(truncatingIfNeeded: random.next())
            }
            if let item = ItemState(encoded: bytes) {
                #expect(ItemState(encoded: item.encoded) == item)
            }
            if let operation = Operation(encoded: bytes) {
                #expect(Operation(encoded: operation.encoded) == operation)
            }
            _ = Revision(encoded: bytes)
            let noise = (0..<random.below(200)).map { _ in
                UInt8(truncatingIfNeeded: random.next())
            }
            _ = ItemState(encoded: [1] + noise)
            _ = Operation(encoded: [1] + noise)
            _ = Revision(encoded: [1] + noise)
        }
    }

    @Test func anotherFormatIsNotRead() {
        var random = SeededRandom(seed: 1)
        var bytes = random.item().encoded
        bytes[0] = 2
        #expect(ItemState(encoded: bytes) == nil)
        #expect(ItemState(encoded: []) == nil)
    }
}

extension SeededRandom {
    fileprivate mutating func identifier() -> Identifier { Identifier(high: next(), low: next()) }

    /// Both small and large numbers.
    private mutating func number() -> UInt64 { next() >> UInt64(below(64)) }

    private mutating func text() -> String {
        let words = ["", "a", "Bericht.txt", "naïve 😀", "e\u{301}", "x:user.tag", "日本"]
        return oneIn(6) ? String(repeating: "long ", count: below(60)) : pick(words)
    }

    private mutating func run() -> [UInt8] {
        (0..<below(40)).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    private mutating func operationID() -> OperationID {
        OperationID(
            device: identifier(), epoch: UInt32(truncatingIfNeeded: next()), number: number())
    }

    private mutating func moment() -> Moment {
        Moment(time: Int64(bitPattern: oneIn(2) ? next() : number()), device: identifier())
    }

    private mutating func placement() -> Placement {
        Placement(
            parent: identifier(), name: text(), key: NameKey(run()), spare: text(),
            spareKey: NameKey(run()))
    }

    private mutating func some<Value>(_ make: (inout SeededRandom) -> Value) -> [Value] {
        (0..<below(4)).map { _ in make(&self) }
    }

    private mutating func maybe<Value>(_ make: (inout SeededRandom) -> Value) -> Value? {
        oneIn(2) ? make(&self) : nil
    }

    fileprivate mutating func revision() -> Revision {
        Revision(
            id: identifier(), parents: some { $0.identifier() },
            content: Digest(.sha256, words: (next(), next(), next(), next())), size: number(),
            moment: moment(), sequence: number(), recordedBy: maybe { $0.operationID() },
            equals: some { $0.identifier() },
            note: Revision.Note(
                deviceName: text(), person: text(), program: text(), name: text(),
                modified: Int64(bitPattern: next()), saved: Int64(bitPattern: number())))
    }

    fileprivate mutating func item() -> ItemState {
        var attributes: [String: Register] = [:]
        for _ in 0..<below(4) {
            attributes[text()] = Register(
                value: maybe { $0.run() }, moment: moment(), sequence: number())
        }
        let life = oneIn(2) ? Life.alive : .trashed(batch: operationID(), sequence: number())
        return ItemState(
            id: identifier(), kind: pick(ItemKind.allCases), target: maybe { $0.text() },
            placement: placement(), placedBy: operationID(), placedAt: moment(),
            placedSequence: number(), isBounced: oneIn(2), current: maybe { $0.revision() },
            conflicts: some { $0.revision() }, attributes: attributes, life: life,
            sequence: number())
    }

    fileprivate mutating func operation() -> Operation {
        let change: Change
        switch below(7) {
        case 0:
            var attributes: [String: [UInt8]] = [:]
            for _ in 0..<below(3) { attributes[text()] = run() }
            change = .create(
                Creation(
                    kind: pick(ItemKind.allCases), placement: placement(),
                    revision: maybe { $0.revision() }, target: maybe { $0.text() },
                    attributes: attributes))
        case 1: change = .edit(revision())
        case 2: change = .move(placement(), base: operationID())
        case 3: change = .delete(current: maybe { $0.identifier() })
        case 4: change = .restore
        case 5: change = .attribute(text(), maybe { $0.run() })
        default: change = .resolve(some { $0.identifier() }, maybe { $0.revision() })
        }
        return Operation(
            id: operationID(), item: identifier(), moment: moment(), base: number(),
            change: change)
    }
}
