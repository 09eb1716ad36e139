import Model
import Support
import Testing

@testable import Merge

/// Properties that every merge of three contents must have, checked with random contents.
@Suite("Merging random contents") struct RandomMergeTests {
    /// Random JSON with the keys a to e, numbers, and few levels.
    private struct Source {
        var random: SeededRandom

        indirect enum Value: Equatable {
            case number(Int)
            case list([Int])
            case object([String: Value])

            var text: String {
                switch self {
                case .number(let number): "\(number)"
                case .list(let list): "[" + list.map(String.init).joined(separator: ", ") + "]"
                case .object(let members):
                    "{"
                        + members.sorted { $0.key < $1.key }.map { "\"\($0)\": \($1.text)" }
                        .joined(separator: ", ") + "}"
                }
            }
        }

        mutating func value(_ depth: Int) -> Value {
            switch random.below(depth > 0 ? 4 : 2) {
            case 0: return .number(random.below(9))
            case 1: return .list((0..<random.below(4)).map { _ in random.below(5) })
            default:
                var members: [String: Value] = [:]
                for _ in 0..<random.below(4) {
                    members[random.pick(["a", "b", "c", "d", "e"])] = value(depth - 1)
                }
                return .object(members)
            }
        }

        mutating func edited(_ value: Value, _ depth: Int) -> Value {
            guard case .object(var members) = value, !random.oneIn(8) else {
                return self.value(depth)
            }
            let key = random.pick(["a", "b", "c", "d", "e"])
            if let old = members[key], !random.oneIn(4) {
                members[key] = edited(old, depth - 1)
            } else {
                members[key] = random.oneIn(3) ? nil : self.value(depth - 1)
            }
            return .object(members)
        }
    }

    private func json(_ value: Source.Value) throws -> JSONText {
        try JSONText(Array(value.text.utf8))
    }

    private func merge(_ base: JSONText, _ ours: JSONText, _ theirs: JSONText) -> JSONText? {
        (try? JSONMerge(base: base, ours: ours, theirs: theirs).merged())
            .flatMap { try? JSONText($0) }
    }

    /// The bytes regardless of any order.
    private func bag(_ text: JSONText) -> [UInt8] { text.canonical(text.root).sorted() }

    @Test("by key: changes of one side, equal changes of both, and exchanged sides") func keys()
        throws
    {
        var source = Source(random: SeededRandom(named: "keys", usual: 17))
        var (clean, conflicts) = (0, 0)
        for _ in 0..<4000 {
            let base = Source.Value.object(["a": source.value(3), "b": source.value(3)])
            let (mine, other) = (source.edited(base, 3), source.edited(base, 3))
            let (b, o, t) = (try json(base), try json(mine), try json(other))
            #expect(merge(b, o, b)?.bytes == o.bytes)
            #expect(merge(b, b, t).map { $0.canonical($0.root) } == t.canonical(t.root))
            #expect(merge(b, o, o)?.bytes == o.bytes)
            let (merged, mirrored) = (merge(b, o, t), merge(b, t, o))
            #expect((merged == nil) == (mirrored == nil), "\(base) \(mine) \(other)")
            if let merged, let mirrored {
                #expect(bag(merged) == bag(mirrored), "\(base) \(mine) \(other)")
                clean += 1
            } else {
                conflicts += 1
            }
        }
        #expect(clean > 1000 && conflicts > 100, "\(clean) \(conflicts)")
    }

    @Test("by key: edits of different members are all in the result") func disjointKeys() throws {
        var source = Source(random: SeededRandom(named: "members", usual: 23))
        for _ in 0..<500 {
            var (base, mine, other) =
                ([String: Source.Value](), [:], [:])
                as ([String: Source.Value], [String: Source.Value], [String: Source.Value])
            var whole: [String: Source.Value] = [:]
            for key in (0..<source.random.below(9)).map({ "k\($0)" }) {
                let old = source.random.oneIn(3) ? nil : source.value(2)
                let new = source.random.oneIn(4) ? nil : source.value(2)
                let isMine = source.random.oneIn(2)
                (base[key], whole[key]) = (old, new)
                (mine[key], other[key]) = (isMine ? new : old, isMine ? old : new)
            }
            let merged = merge(
                try json(.object(base)), try json(.object(mine)), try json(.object(other)))
            let expected = try json(.object(whole))
            #expect(merged.map { $0.canonical($0.root) } == expected.canonical(expected.root))
        }
    }

    @Test("lists: changes of one side, equal changes of both, and insertions of both") func lists()
    {
        var random = SeededRandom(named: "lists", usual: 29)
        func items(_ count: Int, _ letters: Int) -> [UInt8] {
            (0..<random.below(count)).map { _ in UInt8(random.below(letters)) }
        }
        func merged(_ base: [UInt8], _ ours: [UInt8], _ theirs: [UInt8]) -> [UInt8]? {
            let merge = SequenceMerge(
                base: base.map { [$0] }, ours: ours.map { [$0] }, theirs: theirs.map { [$0] })
            return merge.merged()?.map { element in
                switch element {
                case .ours(let at): ours[at]
                case .theirs(let at): theirs[at]
                }
            }
        }
        for _ in 0..<2000 {
            let (a, b) = (items(8, 4), items(8, 4))
            #expect(merged(a, b, a) == b)
            #expect(merged(a, a, b) == b)
            #expect(merged(a, b, b) == b)
            var (ours, theirs) = (a, a)
            ours.insert(100, at: random.below(a.count + 1))
            theirs.insert(101, at: random.below(a.count + 1))
            let both = merged(a, ours, theirs) ?? []
            #expect(both.count == a.count + 2)
            #expect(both.filter { $0 != 100 } == theirs && both.filter { $0 != 101 } == ours)
            let pairs = SequenceMerge.matches(a.map { Int($0) }, b.map { Int($0) })
            let found = pairs.indices.compactMap { at in pairs[at].map { (at, $0) } }
            #expect(found.allSatisfy { a[$0] == b[$1] })
            #expect(zip(found, found.dropFirst()).allSatisfy { $0.1 < $1.1 })
        }
    }

    @Test("the time for large objects grows only with their size") func large() throws {
        func object(_ from: Int, _ to: Int) -> String {
            "{" + (from..<to).map { "\"k\($0)\": 1" }.joined(separator: ", ") + "}"
        }
        let base = try JSONText(Array(object(0, 10).utf8))
        let ours = try JSONText(Array(object(0, 30_000).utf8))
        let theirs = try JSONText(Array(object(20_000, 60_000).utf8))
        let result = try JSONMerge(base: base, ours: ours, theirs: theirs).merged()
        #expect(result == Array(object(10, 60_000).utf8))
    }

    @Test("any bytes are parsed as JSON without a crash") func anyBytes() {
        var random = SeededRandom(named: "bytes", usual: 31)
        let sound = Array(#"{"a":[1,-2.5e3,"x\u00e4\ud83d\ude00\n"],"b":{"c":null,"d":true}}"#.utf8)
        var read = 0
        for _ in 0..<5000 {
            var bytes = sound
            for _ in 0..<random.below(4) {
                bytes[random.below(bytes.count)] =
                    random.oneIn(2)
                    ? UInt8(random.below(256)) : random.pick(Array("{}[],:\"\\u0".utf8))
            }
            if random.oneIn(4) { bytes.removeLast(random.below(bytes.count)) }
            guard let text = try? JSONText(bytes) else { continue }
            _ = text.canonical(text.root)
            read += 1
        }
        #expect(read > 500 && read < 4900)
    }
}
