import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Random changes by the owner, and by a member of a folder who tries everything. What the member's
/// device knows must become the folder as it is, and the member must never change, or hear of,
/// anything outside.
struct FolderSimulationTests {
    @Test(
        "whatever is changed and moved, a member knows the folder, and nothing else",
        arguments: 1...6)
    func random(seed: Int) async throws {
        try await FolderScene.with(limits: FolderTests.small) { scene in
            var run = Run(scene, seed: UInt64(seed))
            try await run.begin()
            for _ in 0..<50 { try await run.step() }
            try await run.compare()
            scene = run.scene
            let check = try scene.hub.administration()
            #expect(try await check.check().faults == [])
            try check.close()
        }
    }

    private struct Run {
        var scene: FolderScene
        var random: SeededRandom
        /// What the member's device has been told.
        var known: [Identifier: ItemState] = [:]
        var cursor: UInt64 = 0
        /// What has ever been in the folder.
        var shown: Set<Identifier> = []
        var items: [Identifier]
        var names = 0

        init(_ scene: FolderScene, seed: UInt64) {
            self.scene = scene
            random = SeededRandom(seed: seed)
            items = [
                scene.shared, scene.sub, scene.deep, scene.hidden, scene.inner, scene.plan,
                scene.note, scene.salary,
            ]
        }

        mutating func begin() async throws {
            try await scene.bert.upload([bytes("x")])
            try await note()
            try await take()
        }

        mutating func step() async throws {
            names += 1
            if random.next() % 3 == 0, try await isThere() {
                let outside = try await outside()
                var device = scene.bert
                let entry = change(by: &device)
                scene.bert = device
                try await device.commit([entry])
                let after = try await scene.anna.states()
                for (id, state) in outside {
                    // The hub may announce it again at the same time.
                    var now = try #require(after[id])
                    now.sequence = state.sequence
                    #expect(now == state, "the member has changed something outside")
                }
            } else {
                var device = scene.anna
                let entry = change(by: &device)
                scene.anna = device
                try await device.commit([entry])
            }
            try await note()
            if random.next() % 2 == 0 { try await work() }
            if random.next() % 3 == 0 { try await take() }
        }

        /// A change that may be possible or not.
        private mutating func change(by device: inout TestDevice) -> OperationEntry {
            let item = items.randomElement(using: &random)!
            let parent = (items + [.root]).randomElement(using: &random)!
            switch random.next() % 8 {
            case 0:
                items.append(.random())
                return device.directory("d\(names)", id: items.last!, in: parent)
            case 1:
                items.append(.random())
                return device.creation("f\(names)", bytes("x"), id: items.last!, in: parent)
            case 2:
                // The directory of the folder stays, because its members would be removed.
                return device.deletion(item == scene.shared ? parent : item, seen: .max / 4)
            case 3: return device.entry(item, .restore)
            case 4:
                return device.entry(
                    item, .edit(device.revision(of: bytes("x"))), bytes: bytes("x"))
            default: return device.move(item, to: parent, named: "m\(names)")
            }
        }

        private func isInside(_ id: Identifier, _ all: [Identifier: ItemState]) -> Bool {
            var (next, depth) = (all[id]?.placement.parent, 0)
            while let parent = next, parent != .root, depth < 100 {
                if parent == scene.shared { return true }
                (next, depth) = (all[parent]?.placement.parent, depth + 1)
            }
            return false
        }

        private func outside() async throws -> [Identifier: ItemState] {
            let all = try await scene.anna.states()
            return all.filter { !isInside($0.key, all) }
        }

        private mutating func note() async throws {
            let all = try await scene.anna.states()
            shown.formUnion(all.keys.filter { isInside($0, all) })
        }

        /// Does one step of what is told in the background.
        private func work() async throws {
            let volume = scene.anna.volume.id
            _ = try await scene.hub.hub.ledger.write(.volume(volume)) {
                try Revivals.step(in: volume, $0, at: 1, FolderTests.small.steps)
            }
        }

        mutating func take() async throws {
            guard try await isThere() else { return }
            while true {
                let page = try await scene.bert.changes(
                    after: cursor, limit: 3, query: "&trashedAfter=0")
                for change in page.changes {
                    switch change {
                    case .item(let state): known[state.id] = state
                    case .alias(let id, _): known[id] = nil
                    }
                }
                cursor = page.next
                if cursor >= page.head { break }
            }
            let foreign = Set(known.keys).subtracting(shown)
            #expect(foreign.isEmpty, "the member has heard of something outside")
        }

        /// The owner may have deleted what is above the folder.
        private func isThere() async throws -> Bool {
            try await scene.anna.states()[scene.shared]?.life.isAlive == true
        }

        mutating func compare() async throws {
            if try await !isThere() {
                try await scene.anna.commit([scene.anna.entry(scene.shared, .restore)])
            }
            try await Revivals(hub: scene.hub.hub).run()
            try await note()
            try await take()
            let all = try await scene.anna.states()
            let aliases = try await aliases()
            var expected = all.filter { $0.value.life.isAlive && isInside($0.key, all) }
            for id in expected.keys where expected[id]?.placement.parent == scene.shared {
                expected[id]?.placement.parent = .root
            }
            let alive = known.filter { $0.value.life.isAlive && aliases[$0.key] == nil }
            #expect(Set(alive.keys) == Set(expected.keys))
            for (id, state) in expected { #expect(alive[id] == state) }
        }

        private func aliases() async throws -> [Identifier: Identifier] {
            var aliases: [Identifier: Identifier] = [:]
            let page = try await scene.anna.changes(limit: 1000, query: "&trashedAfter=0")
            for case .alias(let id, let target) in page.changes { aliases[id] = target }
            return aliases
        }
    }
}
