import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

struct WireTests {
    @Test func base64IsTheStandardOne() throws {
        var random = SeededRandom(seed: 1)
        for count in 0..<100 {
            let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            #expect(Base64(bytes).text == Data(bytes).base64EncodedString())
            #expect(Base64(Base64(bytes).text)?.bytes == bytes)
        }
        for bad in ["A", "AA", "AAA", "AAA-", "AB==", "AAB=", "====", "A===", "AA=A", "AAAA=AAA"] {
            #expect(Base64(bad) == nil, "\(bad)")
        }
    }

    @Test func framesComeTogetherFromAnyPieces() throws {
        let frames = (0..<20).map { index in
            ChunkFrame(
                id: Digest(.sha256, words: (UInt64(index), 0, 0, 0)), codec: .plain,
                bytes: [UInt8](repeating: UInt8(index), count: index * 7))
        }
        let all = frames.flatMap(\.encoded)
        for size in [1, 2, 3, 36, 37, 38, 100, all.count] {
            var (reader, found) = (FrameReader(), [ChunkFrame]())
            for start in stride(from: 0, to: all.count, by: size) {
                reader.append(all[start..<min(start + size, all.count)])
                while let frame = try reader.nextChunk() { found.append(frame) }
            }
            #expect(found == frames)
            #expect(reader.isEmpty)
        }
    }

    @Test func framesThatAreTooLongAreRefusedAtOnce() {
        var reader = FrameReader()
        reader.append([0xFF, 0xFF, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 33))
        #expect(throws: FrameFault.self) { try reader.nextChunk() }
    }

    @Test func presenceIsOneBitAnId() throws {
        let present = (0..<77).map { $0 % 3 == 0 }
        let presence = Presence(present)
        #expect(presence.bytes.count == 10)
        let read = try #require(Presence(bytes: presence.bytes, count: 77))
        #expect((0..<77).map { read[$0] } == present)
        #expect(Presence(bytes: presence.bytes, count: 81) == nil)
    }

    @Test func aPageOfTheFeedSurvivesItsPacking() {
        let item = ItemState(
            id: .random(), kind: .file, placement: Self.placement,
            placedBy: OperationID(device: .random(), epoch: 3, number: 4),
            placedAt: Moment(time: -1, device: .random()), placedSequence: 5,
            current: Self.revision, sequence: 6)
        let answer = ChangesAnswer(
            changes: [.item(item), .alias(.random(), of: .random()), .item(item)], next: 7,
            run: .random(), head: .max, volumeEpoch: .random(), acknowledged: 8, deviceEpoch: 9,
            time: -10)
        let packed = answer.packed
        #expect(ChangesAnswer(packed: packed) == answer)
        let ends = packed.indices.filter { ChangesAnswer(packed: Array(packed[..<$0])) != nil }
        // A page may also end between two changes, because each change has its own length.
        #expect(ends.count == 3)
    }

    static let placement = Placement(
        parent: .random(), name: "a/\u{e9}", key: NameKey([1, 2]), spare: "b",
        spareKey: NameKey([]))
    static let revision = Revision(
        id: .random(), parents: [.random(), .random()],
        content: Digest(.sha256, words: (1, 2, 3, 4)), size: 1 << 40,
        moment: Moment(time: -5, device: .random()), sequence: 7,
        recordedBy: OperationID(device: .random(), epoch: 1, number: 2), equals: [.random()],
        note: Revision.Note(deviceName: "d", person: "p", program: "vi", name: "n", modified: -1))

    static let changes: [Change] = [
        .create(
            Creation(
                kind: .package, placement: placement, revision: revision, target: nil,
                attributes: ["mode": [1, 2]])),
        .create(Creation(kind: .symlink, placement: placement, target: "../x")),
        .edit(revision), .move(placement, base: OperationID(device: .root, epoch: 3, number: 4)),
        .delete(current: nil), .delete(current: .random()), .restore,
        .attribute("x:user.a", nil), .attribute("x:user.a", [0]),
        .resolve([.random()], nil), .resolve([], revision),
    ]

    @Test(arguments: changes) func changesSurviveJSON(_ change: Change) throws {
        let data = try JSONEncoder().encode(change)
        #expect(try JSONDecoder().decode(Change.self, from: data) == change)
    }

    @Test(arguments: [
        Verdict.applied, .bounced, .conflict, .overruled(.cycle), .overruled(.newerValue),
        .unified(into: .random()),
    ])
    func verdictsSurviveJSON(_ verdict: Verdict) throws {
        let data = try JSONEncoder().encode(verdict)
        #expect(try JSONDecoder().decode(Verdict.self, from: data) == verdict)
    }

    @Test func itemsSurviveJSON() throws {
        let by = OperationID(device: .random(), epoch: .max, number: 9)
        let moment = Moment(time: 3, device: .random())
        var item = ItemState(
            id: .random(), kind: .file, placement: Self.placement, placedBy: by, placedAt: moment,
            placedSequence: 4, isBounced: true, current: Self.revision,
            conflicts: [Self.revision],
            attributes: [
                "mode": Register(value: [1, 2], moment: moment, sequence: 3),
                "x:a": Register(value: nil, moment: moment, sequence: 4),
            ], life: .trashed(batch: by, sequence: 5), sequence: 6)
        for change in [ItemChange.item(item), .alias(.random(), of: .random())] {
            let data = try JSONEncoder().encode(change)
            #expect(try JSONDecoder().decode(ItemChange.self, from: data) == change)
        }
        item.life = .alive
        item.current = nil
        let data = try JSONEncoder().encode(item)
        #expect(try JSONDecoder().decode(ItemState.self, from: data) == item)
    }
}
