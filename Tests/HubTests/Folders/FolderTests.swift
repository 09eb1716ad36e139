import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Members who see a folder, and what comes into it and leaves it.
struct FolderTests {
    /// With small limits, what is below a moved directory is told in the background.
    static var small: CallerLimits {
        var limits = CallerLimits()
        (limits.steps.crossed, limits.steps.read, limits.steps.work) = (0, 1, 20)
        return limits
    }

    @Test("a folder is shared and is no longer, and its member cannot be moved to another")
    func sharing() async throws {
        try await FolderScene.with(.reader) { scene in
            let (anna, shared, sub) = (scene.anna, scene.shared, scene.sub)
            _ = try await scene.hub.device(of: "carl")
            for folder in [scene.plan, .root, .random()] {
                let refused = try await failure {
                    try await anna.send(MemberRequest(.add, "carl", role: .reader, folder: folder))
                }
                #expect(refused.code == .malformed, "\(refused)")
            }
            let moved = try await failure {
                try await anna.send(MemberRequest(.role, "bert", role: .editor, folder: sub))
            }
            #expect(moved.code == .malformed)
            try await anna.change(.role, "bert", .editor)
            let first = scene.bert.volume
            #expect(first.role == .reader && first.owner == "anna" && first.name == "team/shared")
            try await scene.bert.save("mine", bytes("mine"))
            try await anna.change(.remove, "bert")
            let refused1 = try await failure { [bert = scene.bert] in try await bert.changes() }
            #expect(refused1.code == .notFound)
            // With another folder it is another volume for the member's devices.
            try await anna.send(MemberRequest(.add, "bert", role: .editor, folder: scene.sub))
            let refused2 = try await failure { [bert = scene.bert] in try await bert.changes() }
            #expect(refused2.code == .notFound)
            #expect(try await scene.bert.open("team/sub", of: "anna").id != first.id)
            try await anna.change(.remove, "bert")
            try await anna.send(MemberRequest(.add, "bert", role: .editor, folder: shared))
            #expect(try await scene.bert.open("team/shared", of: "anna").id == first.id)
            try await scene.bert.change(.remove, "bert")
            #expect(try await anna.members().map(\.user) == ["anna"])
        }
    }

    @Test("a folder in the trash is as if its members were removed, until it is restored")
    func trash() async throws {
        try await FolderScene.with { scene in
            let head = try await scene.anna.changes().head
            let results = try await scene.anna.commit([
                scene.anna.deletion(scene.shared, seen: head)
            ]).results
            #expect(results[0].verdict == .applied)
            let gone = try await failure { [bert = scene.bert] in try await bert.changes() }
            #expect(gone.code == .notFound)
            let listed: VolumeList = try await Wire.get(
                scene.hub.url + Routes.volumes, token: scene.bert.token)
            #expect(listed.volumes.map(\.name) == ["Documents"])
            try await scene.anna.commit([scene.anna.entry(scene.shared, .restore)])
            let seen = try await scene.bert.states(after: head)
            #expect(Set(seen.keys) == [scene.plan, scene.sub, scene.deep, scene.note])
            #expect(seen.values.allSatisfy { $0.life.isAlive })
            // Where the folder is does not matter to them.
            let now = try await scene.bert.changes().head
            try await scene.move(scene.shared, to: scene.inner, named: "elsewhere")
            #expect(try await scene.bert.states(after: now).isEmpty)
            let open = try await scene.bert.open("team/elsewhere", of: "anna")
            #expect(open.id == scene.bert.volume.id)
        }
    }

    @Test(
        "what comes into the folder is sent with everything in it, and what leaves it is gone",
        arguments: [false, true])
    func moves(inSteps: Bool) async throws {
        try await FolderScene.with(limits: inSteps ? Self.small : CallerLimits()) { scene in
            var known = try await scene.seen()
            var position = try await scene.bert.changes().head
            /// Takes what bert's device is told now.
            func take(_ scene: FolderScene) async throws {
                try await Revivals(hub: scene.hub.hub).run()
                for (id, state) in try await scene.bert.states(after: position) {
                    known[id] = state
                }
                position = try await scene.bert.changes(after: position).head
            }
            let all: Set<Identifier> = [scene.plan, scene.sub, scene.deep, scene.note]
            func alive() -> Set<Identifier> {
                Set(known.values.filter(\.life.isAlive).map(\.id))
            }
            try await scene.move(scene.salary, to: scene.sub, named: "salary.txt")
            try await take(scene)
            #expect(alive() == all.union([scene.salary]))
            #expect(known[scene.salary]?.current?.id == scene.version(scene.salary).id)
            try await scene.move(scene.sub, to: scene.inner, named: "secret name")
            try await take(scene)
            #expect(alive() == [scene.plan])
            for id in all.union([scene.salary]).subtracting([scene.plan]) {
                #expect(known[id]?.life.isAlive == false && known[id]?.current == nil)
                #expect(known[id]?.objection == nil)
            }
            // What comes there later was never in the folder.
            try await scene.anna.commit([scene.anna.directory("later", in: scene.deep)])
            try await scene.move(scene.salary, to: scene.hidden, named: "salary.txt")
            try await take(scene)
            #expect(known.count == 5)
            try await scene.move(scene.sub, to: scene.shared, named: "sub")
            try await take(scene)
            #expect(alive().isSuperset(of: all) && alive().count == 5)
            #expect(known[scene.salary]?.life.isAlive == false)
            #expect(known[scene.sub]?.placement.parent == .root)
            // A device that was away sees the same.
            let fresh = try await scene.bert.states(trash: false)
            #expect(Set(fresh.keys) == alive())
        }
    }

    @Test("what is changed elsewhere meanwhile is refused, and comes as a new item")
    func movedOut() async throws {
        try await FolderScene.with { scene in
            try await scene.move(scene.plan, to: scene.hidden, named: "plan.txt")
            let before = try await scene.anna.states()[scene.plan]
            try await scene.bert.upload([bytes("mine")])
            let revision = scene.bert.revision(
                of: bytes("mine"), parents: [scene.version(scene.plan).id])
            let results = try await scene.bert.commit([
                scene.bert.entry(scene.plan, .edit(revision), bytes: bytes("mine"), group: 1),
                scene.bert.entry(scene.plan, .attribute("mode", [1, 0o200]), group: 1),
                scene.bert.entry(scene.plan, .attribute("mode", [1, 0o200])),
                scene.bert.entry(scene.plan, .delete(current: nil)),
            ]).results
            #expect(results[0].refusal?.takenItem == scene.plan)
            #expect(results[1].refusal != nil && results[2].verdict == .applied)
            #expect(results[3].verdict == .overruled(.alreadyGone))
            #expect(try await scene.anna.states()[scene.plan] == before)
            let again = try await scene.bert.commit([
                scene.bert.entry(
                    .random(),
                    .create(
                        Creation(
                            kind: .file, placement: scene.bert.placement("plan.txt"),
                            revision: revision)), bytes: bytes("mine"))
            ]).results[0]
            #expect(again.verdict == .applied)
        }
    }

    @Test("pages hold the folder's changes in the journal's order, however many others there are")
    func pages() async throws {
        try await FolderScene.with { scene in
            var expected: [Identifier] = []
            for index in 0..<30 {
                let id = Identifier.random()
                let isInside = index % 7 == 0
                if isInside { expected.append(id) }
                try await scene.anna.commit([
                    scene.anna.directory(
                        "d\(index)", id: id, in: isInside ? scene.deep : scene.inner)
                ])
            }
            let folder = SharedFolder(
                id: scene.bert.volume.id, volume: scene.anna.volume.id, directory: scene.shared)
            for (lookedAt, limit) in [(1, 1), (3, 1), (4, 2), (100, 2), (1000, 1000)] {
                let found = try await scene.hub.hub.ledger.read { transaction -> [Identifier] in
                    var pages = FolderChanges(transaction: transaction, folder: folder)
                    pages.lookedAt = lookedAt
                    var (after, found) = (UInt64(8), [Identifier]())
                    while true {
                        let page = try #require(
                            try pages.page(
                                after: after, limit: limit, withoutTrashUpTo: 0, mayBeLarge: true))
                        #expect(page.changes.count <= limit)
                        for case .item(let item) in page.changes { found.append(item.id) }
                        guard let next = page.next else { return found }
                        #expect(next > after)
                        after = next
                    }
                }
                #expect(found == expected, "\(lookedAt) \(limit)")
            }
        }
    }

    @Test("a feed of a folder's member ends when the member is removed") func feed() async throws {
        try await FolderScene.with { scene in
            let (anna, bert) = (scene.anna, scene.bert)
            try await FeedTests().listen(bert) { lines in
                _ = try await lines.next()
                try await anna.change(.remove, "bert")
                try await lines.skip(to: "its end") { $0.ended?.code == .forbidden }
            }
        }
    }

    @Test("the feeds of a folder's members end when it goes to the trash") func endOfFeed()
        async throws
    {
        try await FolderScene.with { scene in
            let (bert, shared) = (scene.bert, scene.shared)
            let seen = try await scene.anna.changes().head
            try await FeedTests().listen(bert) { lines in
                #expect(try await lines.next()?.head == seen)
                try await scene.anna.commit([scene.anna.deletion(shared, seen: seen)])
                try await lines.skip(to: "its end") { hint in
                    #expect(hint.head ?? 0 <= seen)
                    return hint.ended?.code == .notFound
                }
                #expect(try await lines.next() == nil)
            }
            try await scene.anna.commit([scene.anna.entry(shared, .restore)])
            try await FeedTests().listen(bert) { lines in
                try await lines.head(atLeast: seen + 1)
            }
        }
    }

    @Test("a limit below another: each member sees their own folder") func nested() async throws {
        try await FolderScene.with { scene in
            var carl = try await scene.hub.device(of: "carl")
            try await scene.anna.send(
                MemberRequest(.add, "carl", role: .editor, folder: scene.sub))
            carl.volume = try await carl.open("team/sub", of: "anna")
            #expect(Set(try await carl.states().keys) == [scene.deep, scene.note])
            // Bert moves something out of carl's folder.
            let head = try await carl.changes().head
            try await scene.bert.commit([
                scene.bert.move(scene.deep, to: .root, named: "deep")
            ])
            let gone = try await carl.states(after: head)
            #expect(Set(gone.keys) == [scene.deep, scene.note])
            #expect(gone.values.allSatisfy { !$0.life.isAlive && $0.name != "deep" })
            #expect(try await scene.anna.states()[scene.deep]?.placement.parent == scene.shared)
        }
    }

    @Test("adding a member reads and writes a few rows, however large the volume is")
    func cost() async throws {
        var counts: [Int] = []
        for items in [10, 2000] {
            try await FolderScene.with { scene in
                for start in stride(from: 0, to: items, by: 500) {
                    try await scene.anna.commit(
                        (start..<min(start + 500, items)).map {
                            scene.anna.directory("\($0)", in: scene.deep)
                        })
                }
                let carl = try await scene.hub.device(of: "carl")
                let (volume, sub) = (scene.anna.volume.id, scene.sub)
                let count = try await scene.hub.hub.ledger.write { transaction -> Int in
                    let watched = CountedTransaction(base: transaction)
                    let row = try #require(try transaction.volume(volume))
                    try watched.membership.change(
                        MemberRequest(.add, "carl", role: .editor, folder: sub), of: row, at: 1)
                    return watched.counts.statements.withLock { $0 }
                }
                counts.append(count)
                #expect(try await carl.open("team/sub", of: "anna").name == "team/sub")
            }
        }
        #expect(counts[0] == counts[1] && counts[0] < 15, "\(counts)")
    }

    @Test("a whole volume asks one thing more for a move, and nothing for other changes")
    func costWithoutFolders() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.device(of: "anna", volume: "team")
            let (item, directory) = (Identifier.random(), Identifier.random())
            try await anna.commit([
                anna.directory("a", id: item), anna.directory("b", id: directory),
            ])
            let volume = anna.volume.id
            let asked = try await hub.hub.ledger.write { transaction -> [String] in
                let watched = CountedTransaction(base: transaction)
                var table = LedgerTable(watched, volume: volume, time: 1)
                table.sequence = 3
                var state = try #require(try table.item(item))
                state.attributes["mode"] = Register(
                    value: [1, 0], moment: state.placedAt, sequence: 3)
                try table.put(state)
                let before = watched.counts.texts.withLock { $0 }
                #expect(!before.contains { $0.contains("folders") })
                state.placement.parent = directory
                try table.put(state)
                return watched.counts.texts.withLock { Array($0.dropFirst(before.count)) }
            }
            #expect(asked.count { $0.contains("folders") } == 1)
            #expect(!asked.contains { $0.contains("crossings") || $0.contains("departures") })
        }
    }
}
