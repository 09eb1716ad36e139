import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// A member of a folder tries everything on what is outside of it, and is answered as if there were
/// nothing.
struct HostileMemberTests {
    private func encoded(_ value: some Encodable) throws -> String {
        String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }

    @Test("the folder is the whole volume") func view() async throws {
        try await FolderScene.with { scene in
            let seen = try await scene.seen()
            #expect(Set(seen.keys) == [scene.plan, scene.sub, scene.deep, scene.note])
            #expect(seen[scene.plan]?.placement.parent == .root)
            #expect(seen[scene.sub]?.placement.parent == .root)
            #expect(seen[scene.deep]?.placement.parent == scene.sub)
            #expect(seen[scene.note]?.placement.parent == scene.deep)
            let page = try encoded(try await scene.bert.changes())
            for id in [scene.shared, scene.hidden, scene.inner, scene.salary, scene.anna.volume.id]
            {
                #expect(!page.contains(id.description))
            }
            for name in ["private", "salary", "shared"] { #expect(!page.contains(name)) }
            let listed: VolumeList = try await Wire.get(
                scene.hub.url + Routes.volumes, token: scene.bert.token)
            #expect(listed.volumes.map(\.name) == ["Documents", "team/shared"])
            #expect(!listed.volumes.map(\.id).contains(scene.anna.volume.id))
            // The id of the volume is good for nothing.
            var direct = scene.bert
            direct.volume.id = scene.anna.volume.id
            let refused = try await failure { [direct] in try await direct.changes() }
            #expect(refused.code == .notFound)
        }
    }

    /// Each change of something outside, beside the same one of something that does not exist.
    @Test("no operation reaches an item outside, or a directory") func operations() async throws {
        try await FolderScene.with { scene in
            let before = try await scene.anna.states()
            try await scene.bert.upload([bytes("new"), bytes("newer")])
            let (outside, nowhere) = (scene.salary, Identifier.random())
            func changes(_ scene: FolderScene) -> [(Change, [UInt8]?)] {
                let bert = scene.bert
                return [
                    (.edit(bert.revision(of: bytes("new"))), bytes("new")),
                    (.delete(current: nil), nil),
                    (.delete(current: scene.version(scene.salary).id), nil),
                    (.restore, nil),
                    (.move(bert.placement("mine", in: .root), base: .unknown), nil),
                    (.move(bert.placement("mine", in: scene.sub), base: .unknown), nil),
                    (.attribute("mode", [1, 0o200]), nil),
                    (.resolve([scene.version(scene.salary).id], nil), nil),
                    (.resolve([], bert.revision(of: bytes("newer"))), bytes("newer")),
                ]
            }
            for id in [outside, scene.hidden, scene.shared] {
                for (change, content) in changes(scene) {
                    let real = try await scene.bert.commit([
                        scene.bert.entry(id, change, bytes: content)
                    ]).results[0]
                    let none = try await scene.bert.commit([
                        scene.bert.entry(nowhere, change, bytes: content)
                    ]).results[0]
                    #expect(FolderScene.plain(real) == FolderScene.plain(none), "\(change)")
                    #expect(real.verdict != .bounced && real.verdict != .conflict)
                }
            }
            let after = try await scene.anna.states()
            #expect(after == before, "nothing was changed, and nothing was made")
            // A directory outside is as unknown as one that does not exist.
            for parent in [scene.hidden, scene.shared, scene.inner, nowhere, .root] {
                let id = Identifier.random()
                let results = try await scene.bert.commit([
                    scene.bert.directory("made", id: id, in: parent),
                    scene.bert.move(scene.note, to: parent, named: "moved"),
                ]).results
                #expect(results.allSatisfy { $0.verdict == .applied }, "\(results)")
                let all = try await scene.anna.states()
                #expect(all[id]?.placement.parent == scene.shared)
                #expect(all[scene.note]?.placement.parent == scene.shared)
                try await scene.bert.commit([
                    scene.bert.deletion(id, seen: try await scene.bert.changes().head),
                    scene.bert.move(scene.note, to: scene.deep, named: "note.txt"),
                ])
            }
        }
    }

    @Test("the id of an item outside cannot be taken, and nothing is unified with it")
    func creations() async throws {
        try await FolderScene.with { scene in
            let before = try await scene.anna.states()
            try await scene.bert.upload([bytes("salary"), bytes("x")])
            for id in [scene.salary, scene.hidden, scene.shared, scene.inner] {
                for entry in [
                    scene.bert.directory("salary.txt", id: id),
                    scene.bert.creation("salary.txt", bytes("salary"), id: id),
                    scene.bert.directory(
                        "private", id: id, in: id == scene.hidden ? scene.inner : scene.hidden),
                    // The folder's own document would be unified with it.
                    scene.bert.directory("sub", id: id),
                ] {
                    let result = try await scene.bert.commit([entry]).results[0]
                    #expect(result.verdict == nil && result.refusal?.code == .malformed)
                    #expect(result.refusal?.takenItem == id)
                }
            }
            #expect(try await scene.anna.states() == before)
            let id = Identifier.random()
            let made = try await scene.bert.commit([
                scene.bert.directory("private", id: id)
            ]).results[0]
            #expect(made.verdict == .applied)
            #expect(try await scene.anna.states()[id]?.placement.parent == scene.shared)
            let twin = try await scene.bert.commit([scene.bert.directory("sub")]).results[0]
            #expect(twin.verdict == .unified(into: scene.sub))
        }
    }

    @Test("a deletion in steps under the id of an item outside is refused alone")
    func deletionInSteps() async throws {
        var limits = CallerLimits()
        limits.steps.deleted = 1
        try await FolderScene.with(limits: limits) { scene in
            // What was unified with a directory in the folder may be outside of it itself.
            let (old, volume) = (Identifier.random(), scene.anna.volume.id)
            let (sub, inner) = (scene.sub, scene.inner)
            let head = try await scene.bert.changes().head
            try await scene.hub.hub.ledger.write { transaction in
                for id in [old, inner] {
                    try transaction.setAlias(of: id, to: sub, in: volume, sequence: head)
                }
            }
            let results = try await scene.bert.commit([
                scene.bert.deletion(inner, seen: head), scene.bert.directory("after"),
            ]).results
            #expect(results[0].refusal?.code == .malformed)
            #expect(results[0].refusal?.takenItem == inner)
            #expect(results[1].verdict == .applied)
            #expect(try await scene.seen()[scene.note]?.life.isAlive == true)
            let result = try await scene.bert.commit([scene.bert.deletion(old, seen: head)])
                .results[0]
            #expect(result.verdict == .applied)
            #expect(try await scene.seen()[scene.note]?.life.isAlive == false)
            // The device is told again what the item's id is.
            let told = try await scene.bert.changes(after: head).changes
            #expect(told.contains { if case .alias(old, of: sub) = $0 { true } else { false } })
        }
    }

    @Test("the id of a version outside tells nothing of it") func versions() async throws {
        try await FolderScene.with { scene in
            try await scene.bert.upload([bytes("salary"), bytes("guess")])
            let version = scene.version(scene.salary)
            var refusals: Set<String> = []
            for guess in ["salary", "guess"] {
                for item in [scene.salary, scene.plan] {
                    let revision = scene.bert.revision(of: bytes(guess), id: version.id)
                    let result = try await scene.bert.commit([
                        scene.bert.entry(item, .edit(revision), bytes: bytes(guess))
                    ]).results[0]
                    #expect(result.refusal?.takenVersion == version.id)
                    refusals.insert(FolderScene.plain(result))
                }
            }
            #expect(refusals.count == 1, "\(refusals)")
            let (list, token) = (RevisionList(revisions: [version.id]), scene.bert.token)
            let body = [UInt8](try JSONEncoder().encode(list))
            let manifests = try await Wire.send(
                scene.bert.path(.manifests), body, token: token, type: ContentType.json)
            #expect(try manifests.checked().isEmpty)
            let counts: DurabilityAnswer = try await Wire.post(
                scene.bert.path(.durability), list, token: token)
            #expect(counts.devices == [nil])
            let _: Done = try await Wire.post(
                scene.bert.path(.holding), HoldingRequest(revisions: [version.id]), token: token)
            let holders: DurabilityAnswer = try await Wire.post(
                scene.anna.path(.durability), list, token: scene.anna.token)
            #expect(holders.devices == [1])
        }
    }

    @Test("contents outside are neither read nor guessed") func contents() async throws {
        try await FolderScene.with { scene in
            let (secret, plan) = (bytes("salary"), bytes("plan"))
            let ids = [scene.bert.id(of: secret), scene.bert.id(of: plan)]
            let (salary, known) = (scene.version(scene.salary).id, scene.version(scene.plan).id)
            for versions in [[], [salary], [.random()]] {
                let read = try await scene.bert.read(ids, of: versions)
                #expect(read.allSatisfy { $0.codec == .absent && $0.bytes.isEmpty })
                #expect(try await scene.bert.have(ids, of: versions).present == [false, false])
            }
            let read = try await scene.bert.read(ids, of: [known, salary])
            #expect(read.map(\.bytes) == [[], plan])
            #expect(try await scene.bert.have(ids, of: [known, salary]).present == [false, true])
            // A guess is not confirmed by a version either, until its bytes were sent.
            let entry = scene.bert.creation("guess", secret)
            let refused = try await failure { [bert = scene.bert] in
                try await bert.commit([entry])
            }
            #expect(refused.code == .missing && refused.missing?.ids == [ids[0]])
            try await scene.bert.upload([secret])
            #expect(try await scene.bert.have(ids).present == [true, true])
            #expect(try await scene.bert.commit([entry]).results[0].verdict == .applied)
            // It is kept once, and anna still has hers.
            #expect(try await scene.anna.read([ids[0]])[0].bytes == secret)
            let check = try scene.hub.administration()
            #expect(try await check.check().faults == [])
            try check.close()
        }
    }

    @Test("a long list of versions is refused, and one that is none") func headers() async throws {
        try await FolderScene.with { scene in
            let many = (0...HubLimits.versionsNamed).map { _ in Identifier.random() }
            let large = try await failure { [bert = scene.bert] in
                try await bert.read([.sha256([])], of: many)
            }
            #expect(large.code == .tooLarge)
            let reply = try await Wire.send(
                scene.bert.path(.read), PackedIDs([.sha256([])]).bytes, token: scene.bert.token,
                headers: [HubHeader.versions: "x"])
            #expect(reply.failure?.code == .malformed)
        }
    }

    @Test("who is there outside, and what is open there, is not told") func people() async throws {
        try await FolderScene.with { scene in
            for user in ["carl", "dora", "emil"] { _ = try await scene.hub.device(of: user) }
            for (user, folder) in [
                ("carl", scene.hidden), ("dora", scene.sub), ("emil", scene.shared),
            ] {
                try await scene.anna.send(
                    MemberRequest(.add, user, role: .reader, folder: folder))
            }
            #expect(try await scene.bert.members().map(\.user) == ["anna", "bert", "dora", "emil"])
            #expect(
                try await scene.bert.members().map(\.folder) == [nil, nil, "sub", nil])
            #expect(
                try await scene.anna.members().map(\.folder)
                    == [nil, "shared", "private", "shared/sub", "shared"])
            var number: UInt64 = 0
            func tell(_ device: TestDevice, _ item: Identifier) async throws {
                number += 1
                let document = LeaseRequest.Document(item: item, use: .edits, age: 0)
                let _: Done = try await Wire.post(
                    device.path(.leases), LeaseRequest(number: number, documents: [document]),
                    token: device.token)
            }
            func open(_ device: TestDevice) async throws -> LeaseList {
                try await Wire.get(device.path(.leases), token: device.token)
            }
            try await tell(scene.anna, scene.salary)
            #expect(try await open(scene.bert).leases.isEmpty)
            #expect(try await open(scene.bert).revision == 0)
            try await tell(scene.anna, scene.plan)
            #expect(try await open(scene.bert).leases.map(\.item) == [scene.plan])
            try await tell(scene.bert, scene.salary)
            #expect(try await open(scene.anna).leases.isEmpty)
            try await tell(scene.bert, scene.note)
            #expect(try await open(scene.anna).leases.map(\.item) == [scene.note])
        }
    }

    @Test("a position that the journal does not have does not concern other members")
    func epochs() async throws {
        try await FolderScene.with { scene in
            let refused = try await failure { [bert = scene.bert] in
                try await bert.changes(after: 1000)
            }
            #expect(refused.code == .copied)
            #expect(try await scene.anna.changes().volumeEpoch == scene.anna.volume.epoch)
        }
    }
}
