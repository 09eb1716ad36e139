import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Documents that only one device may edit, for members of a folder.
struct FolderGrantTests {
    @Test func documentsOfTheFolderAreGranted() async throws {
        try await FolderScene.with { scene in
            let token = try #require(try await scene.bert.ask(.take, scene.plan, 1).token)
            let refused = try await scene.anna.ask(.take, scene.plan, 1)
            #expect(refused.token == nil && refused.user == "bert")
            #expect(try await scene.bert.ask(.renew, scene.plan, 2, token).token == token)
            // What anna saves meanwhile does not become the current version, and bert's does.
            let first = scene.version(scene.plan)
            try await scene.anna.upload([bytes("by anna")])
            try await scene.bert.upload([bytes("by bert")])
            try await edit(&scene.anna, scene.plan, "by anna", over: first, fence: nil)
            #expect(try await scene.seen()[scene.plan]?.current?.id == first.id)
            let version = try await edit(
                &scene.bert, scene.plan, "by bert", over: first, fence: token)
            #expect(try await scene.seen()[scene.plan]?.current?.id == version)
            _ = try await scene.bert.ask(.release, scene.plan, 3, token)
            #expect(try await scene.anna.ask(.take, scene.plan, 2).token != nil)
        }
    }

    @discardableResult
    private func edit(
        _ device: inout TestDevice, _ item: Identifier, _ text: String, over parent: Revision,
        fence: UInt64?
    ) async throws -> Identifier {
        let version = device.revision(of: bytes(text), parents: [parent.id])
        var entry = device.entry(item, .edit(version), bytes: bytes(text))
        entry.fence = fence
        try await device.commit([entry])
        return version.id
    }

    @Test func otherDocumentsAreUnknown() async throws {
        try await FolderScene.with { scene in
            #expect(try await scene.anna.ask(.take, scene.salary, 1).token != nil)
            let before = try await scene.anna.changes().head
            let unknown = try await scene.bert.ask(.take, .random(), 1)
            for kind in [GrantRequest.Kind.take, .renew, .resume] {
                let token: UInt64? = kind == .take ? nil : before
                #expect(try await scene.bert.ask(kind, scene.salary, 1, token) == unknown)
            }
            _ = try await scene.bert.ask(.release, scene.salary, 1, before)
            #expect(try await scene.anna.ask(.renew, scene.salary, 2, before).token == before)
            #expect(try await scene.anna.changes().head == before)
        }
    }

    @Test func whatHasLeftTheFolderIsNotRenewed() async throws {
        try await FolderScene.with { scene in
            let token = try #require(try await scene.bert.ask(.take, scene.plan, 1).token)
            try await scene.move(scene.plan, to: scene.hidden, named: "plan.txt")
            #expect(try await scene.bert.ask(.renew, scene.plan, 2, token).token == nil)
            #expect(try await scene.anna.ask(.take, scene.plan, 1).token == nil)
            _ = try await scene.bert.ask(.release, scene.plan, 3, token)
            #expect(try await scene.anna.ask(.take, scene.plan, 2).token != nil)
            #expect(try await scene.bert.ask(.take, scene.plan, 4).device == nil)
        }
    }
}
