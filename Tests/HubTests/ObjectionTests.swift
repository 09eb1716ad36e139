import HubProtocol
import Model
import Reconcile
import Testing

/// Answers of a hub are validated before they are used.
struct ObjectionTests {
    private static let moment = Moment(time: 1, device: .random())

    private static func page(_ change: (inout ItemState) -> Void = { _ in }) -> ChangesAnswer {
        let placement = Placement(
            parent: .root, name: "a", key: NameKey([1]), spare: "a (b)", spareKey: NameKey([2]))
        var state = ItemState(
            id: .random(), kind: .file, placement: placement,
            placedBy: OperationID(device: .random(), epoch: 1, number: 1), placedAt: moment,
            placedSequence: 1,
            current: Revision(
                id: .random(), parents: [], content: .sha256([1]), size: 5, moment: moment),
            sequence: 1)
        change(&state)
        return ChangesAnswer(
            changes: [.item(state)], next: 1, head: 2, volumeEpoch: .random(), acknowledged: 0,
            deviceEpoch: 1, time: 0)
    }

    @Test func aPageThatAHubSendsIsTaken() {
        #expect(Self.page().objection(after: 0) == nil)
        let root = Self.page { state in
            (state.id, state.kind, state.current) = (.root, .directory, nil)
            state.placement.name = ""
        }
        #expect(root.objection(after: 0) == nil)
        var last = Self.page()
        (last.next, last.changes) = (last.head, [])
        #expect(last.objection(after: last.head) == nil)
    }

    private func last(next: UInt64, head: UInt64) -> ChangesAnswer {
        var page = Self.page()
        (page.next, page.head, page.changes) = (next, head, [])
        return page
    }

    @Test func answersThatLieAreRefused() {
        let time: Int64 = 1_700_000_000_000_000_000
        let entries = (1...2).map { number in
            OperationEntry(
                Operation(
                    id: OperationID(device: .root, epoch: 1, number: number), item: .random(),
                    moment: Self.moment, base: 0, change: .restore))
        }
        let good = CommitAnswer(
            results: entries.map {
                OperationResult(number: $0.number, verdict: .applied, sequence: 1)
            }, head: 2, volumeEpoch: .random(), received: time, answered: time)
        #expect(good.objection(to: entries) == nil)
        let lies: [(inout CommitAnswer) -> Void] = [
            { $0.results.removeLast() }, { $0.results.append($0.results[0]) },
            { $0.results.reverse() }, { $0.head = .max }, { $0.results[1].sequence = .max },
            { $0.received = .min }, { $0.answered = .max },
        ]
        for (index, lie) in lies.enumerated() {
            var answer = good
            lie(&answer)
            #expect(answer.objection(to: entries) != nil, "\(index)")
        }
        let request = EnrolRequest(code: "c", deviceName: "d", device: .random())
        func enrolled(_ token: String, _ device: Identifier) -> String? {
            EnrolAnswer(
                token: token, user: "u", account: .random(), device: device, epoch: 1, volumes: []
            ).objection(to: request.device)
        }
        #expect(enrolled("cct_1", request.device) == nil)
        #expect(enrolled("cct_1", .random()) != nil)
        for token in ["", "a b", "a\r\nX: y", String(repeating: "x", count: 5000)] {
            #expect(enrolled(token, request.device) != nil)
            #expect(TokenAnswer(token: token).objection != nil)
        }
        #expect(DurabilityAnswer(devices: [1, nil]).objection(toCount: 2) == nil)
        #expect(DurabilityAnswer(devices: [1]).objection(toCount: 2) != nil)
        #expect(DurabilityAnswer(devices: [-1]).objection(toCount: 1) != nil)
    }

    @Test func aPageThatLiesIsRefused() {
        let lies: [(inout ItemState) -> Void] = [
            { $0.current?.size = 1 << 63 }, { $0.current?.size = .max },
            {
                $0.conflicts = [$0.current!]
                $0.conflicts[0].size = .max
            },
            { $0.current?.sequence = .max }, { $0.sequence = .max }, { $0.placedSequence = .max },
            { $0.life = .trashed(batch: $0.placedBy, sequence: .max) },
            { $0.current!.parents = [$0.current!.id] },
            { $0.current!.parents = (0...HubLimits.parents).map { _ in .random() } },
            { $0.current!.note.person = String(repeating: "x", count: 5000) },
            { $0.placement.name = "../up" }, { $0.placement.spare = "" },
            { $0.placement.name = String(repeating: "x", count: 256) },
            { $0.placement.parent = $0.id }, { $0.target = "x" }, { $0.kind = .directory },
            { $0.placement.name = ".versions" }, { $0.placement.spare = ".conflicts" },
            { $0.current!.note.name = "../up" }, { $0.current!.note.name = "a\u{0}" },
            {
                $0.current = Revision(
                    id: .root, parents: [], content: .sha256([1]), size: 5, moment: Self.moment)
            }, { $0.current!.parents = [.root] },
            {
                $0.kind = .symlink
                $0.current = nil
            },
            {
                $0.kind = .symlink
                $0.current = nil
                $0.target = "a\u{0}b"
            },
        ]
        for (index, lie) in lies.enumerated() {
            let page = Self.page(lie)
            guard case .item(let state)? = page.changes.first else { continue }
            #expect(state.objection != nil, "\(index)")
            // The other items of the page are not refused with it.
            #expect(page.objection(after: 0) == nil, "\(index)")
        }
        var page = Self.page()
        // The device would request the same page without end.
        #expect(page.objection(after: page.next) != nil)
        #expect(last(next: 2, head: 2).objection(after: 3) != nil)
        for time in [Int64.min, -1, .max] {
            var page = Self.page()
            page.time = time
            #expect(page.objection(after: 0) != nil)
        }
        page.next = page.head + 1
        #expect(page.objection(after: 0) != nil)
        (page.next, page.head) = (.max, .max)
        #expect(page.objection(after: 0) != nil)
    }

    @Test func anOwnerIsAUserName() {
        for name in ["anna", "#2001", "root", "Jörg Müller", String(repeating: "x", count: 255)] {
            #expect(Register.objection(to: "owner", Array(name.utf8)) == nil)
        }
        #expect(Register.objection(to: "owner", nil) == nil)
        for name in ["", "a/b", "a:b", "a\u{0}", String(repeating: "x", count: 256)] {
            #expect(Register.objection(to: "owner", Array(name.utf8)) != nil, "\(name)")
        }
        #expect(Register.objection(to: "owner", [0xFF]) != nil)
    }

    @Test func aManifestAddsUp() {
        let chunk = ChunkReference(id: .sha256([1]), length: 5)
        let file = Manifest(chunks: [chunk, chunk])
        #expect(file.objection == nil && Manifest(entries: []).objection == nil)
        func entry(_ change: (inout Manifest.Entry) -> Void) -> Manifest {
            var entry = file.entries[0]
            change(&entry)
            return Manifest(entries: [entry])
        }
        let path = Array("a/b".utf8)
        #expect(entry { $0.path = path }.objection == nil)
        let lies: [(inout Manifest.Entry) -> Void] = [
            { $0.size = .max }, { $0.size = 1 << 63 }, { $0.size = 11 }, { $0.chunks = [] },
            {
                $0.chunks = [ChunkReference(id: chunk.id, length: .max)]
                $0.size = 0xFFFF_FFFF
            },
            {
                $0.chunks = [ChunkReference(id: chunk.id, length: 0)]
                $0.size = 0
            },
            { $0.kind = .directory }, { $0.kind = .symlink }, { $0.path = Array("a/../b".utf8) },
            { $0.path = Array("/a".utf8) }, { $0.path = Array("a//b".utf8) },
            { $0.path = Array("a/".utf8) }, { $0.path = [97, 0] },
            { $0.path = [UInt8](repeating: 97, count: 256) },
            { $0.path = Array("a/.versions/b".utf8) },
        ]
        for (index, lie) in lies.enumerated() {
            #expect(entry(lie).objection != nil, "\(index)")
        }
        let huge = (0..<4).map {
            Manifest.Entry(path: [UInt8(97 + $0)], size: 1 << 62, chunks: [])
        }
        #expect(Manifest(entries: huge).objection != nil)
        #expect(Manifest(entries: huge).size == .max)
        let twice = entry { $0.path = path }.entries[0]
        #expect(Manifest(entries: [twice, twice]).objection != nil)
        #expect(Manifest(entries: [twice, file.entries[0]]).objection != nil)
    }

    /// A few bytes stand for millions of chunks, so a manifest is judged before it is decoded.
    @Test func aManifestThatExpandsTooFarIsRefused() {
        let chunk = ChunkReference(id: .sha256([1]), length: 1)
        func encoded(_ count: Int) -> [UInt8] {
            Manifest(chunks: [ChunkReference](repeating: chunk, count: count)).encoded
        }
        let most = encoded(HubLimits.references)
        #expect(most.count < 100)
        #expect(Manifest(received: most)?.references == HubLimits.references)
        #expect(Manifest(received: encoded(HubLimits.references + 1)) == nil)
        // The document is said to be smaller.
        #expect(Manifest(received: encoded(100), size: 100) != nil)
        #expect(Manifest(received: encoded(100), size: 99) == nil)
    }
}
