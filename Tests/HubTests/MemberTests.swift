import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// The members of a volume, and what each of them may do.
struct MemberTests {
    /// What an account is for anna's volume.
    enum Standing: CaseIterable, CustomTestStringConvertible {
        case owner, editor, reader, removed, never
        /// Members of the folder in which the document is.
        case folderEditor, folderReader, removedFromFolder

        var role: Role? {
            switch self {
            case .owner: .owner
            case .editor, .removed, .folderEditor, .removedFromFolder: .editor
            case .reader, .folderReader: .reader
            case .never: nil
            }
        }

        var isRemoved: Bool { self == .removed || self == .removedFromFolder }
        var isLimited: Bool { "\(self)".localizedCaseInsensitiveContains("folder") }

        var testDescription: String { "\(self)" }

        /// The decision, written down a second time. The switches have no default, so that a new
        /// operation needs a decision here, too.
        func answer(to operation: VolumeOperation) -> Failure.Code? {
            if isRemoved || self == .never { return .notFound }
            let isReader = role == .reader
            switch operation {
            case .page, .links: return isLimited ? .forbidden : nil
            case .pageForm, .makeLink: return isReader || isLimited ? .forbidden : nil
            case .open, .have, .read, .changes, .manifests, .feed, .durability, .wanted, .members,
                .leases:
                return nil
            case .chunks, .commit, .holding, .edit, .grant: return isReader ? .forbidden : nil
            case .changeMembers: return self == .owner ? nil : .forbidden
            case .leave: return self == .owner ? .forbidden : nil
            }
        }
    }

    /// A volume of anna with a document, and a device of the account in question, which knows the
    /// volume's id and keys.
    struct Scene {
        let hub: RunningHub
        let anna: TestDevice
        var device: TestDevice
        let user: String
        var surfer: Surfer
        let item: Identifier
        let revision: Revision
        /// What the account calls the volume.
        let name: String

        init(_ standing: Standing, at hub: RunningHub) async throws {
            self.hub = hub
            var anna = try await hub.device(of: "anna", volume: "team")
            user = standing == .owner ? "anna" : "bert"
            device = standing == .owner ? anna : try await hub.device(of: user)
            surfer = try await hub.surfer(user)
            let folder = Identifier.random()
            try await anna.commit([anna.directory("folder", id: folder)])
            name = standing.isLimited ? "team/folder" : "team"
            if let role = standing.role, role != .owner {
                try await anna.send(
                    MemberRequest(
                        .add, user, role: role, folder: standing.isLimited ? folder : nil))
                device.volume = try await device.open(name, of: "anna")
                #expect((device.volume.id == anna.volume.id) == !standing.isLimited)
            } else {
                device.volume = anna.volume
            }
            if standing.isRemoved { try await anna.change(.remove, user) }
            try await anna.upload([bytes("secret")])
            item = .random()
            let entry = anna.creation("plan.txt", bytes("secret"), id: item, in: folder)
            revision = entry.change.revision!
            try await anna.commit([entry])
            if standing == .owner { device = anna }
            self.anna = anna
        }

        /// Sends one operation as it would succeed for the volume's owner.
        ///
        /// - Returns: The status, and the body without ids.
        mutating func attempt(_ operation: VolumeOperation) async throws -> (Int, String) {
            let chunk = PackedIDs([device.id(of: bytes("secret"))]).bytes
            let list = try json(RevisionList(revisions: [revision.id]))
            switch operation {
            case .open:
                return try await send(
                    hub.url + Routes.volumes, try json(VolumeRequest(name: name, owner: "anna")))
            case .have: return try await call(.have, chunk, ContentType.binary)
            case .chunks:
                return try await call(
                    .chunks, device.frame(bytes("new")).encoded, ContentType.binary)
            case .read: return try await call(.read, chunk, ContentType.binary)
            case .commit:
                return try await call(
                    .commit, try json(device.request([device.directory("new")])))
            case .changes: return try await get(.changes)
            case .manifests: return try await call(.manifests, list)
            case .feed: return try await status(ofFeed: device)
            case .holding:
                return try await call(.holding, try json(HoldingRequest(revisions: [revision.id])))
            case .durability: return try await call(.durability, list)
            case .wanted: return try await get(.wanted)
            case .members: return try await get(.members)
            case .leases: return try await get(.leases)
            case .links: return try await get(.links)
            case .makeLink:
                return try await call(.links, try json(ShareLinkRequest(linkTo: item)))
            case .edit:
                let document = LeaseRequest.Document(item: item, use: .edits, age: 0)
                return try await call(
                    .leases, try json(LeaseRequest(number: 1, documents: [document])))
            case .grant:
                let step = GrantRequest.Step(.take, item, number: 1)
                return try await call(.grants, try json(GrantRequest(steps: [step])))
            case .changeMembers:
                _ = try await hub.device(of: "carl")
                return try await call(
                    .members, try json(MemberRequest(.add, "carl", role: .reader)))
            case .leave:
                return try await call(.members, try json(MemberRequest(.remove, user)))
            case .page:
                let page = try await surfer.get("/web/v/\(device.volume.id)")
                return (page.status, plain(Array(page.prose.utf8)))
            case .pageForm:
                let token = try await surfer.get("/web").fields("token").first ?? ""
                let head = try await anna.changes().head
                let page = try await surfer.post(
                    "/web/v/\(device.volume.id)/\(item)/restore",
                    [
                        ("token", token), ("position", "\(device.volume.epoch)-\(head)"),
                        ("revision", "\(revision.id)"), ("shown", "\(revision.id)"),
                    ])
                return (page.status == 303 ? 200 : page.status, plain(Array(page.prose.utf8)))
            }
        }

        private func json(_ value: some Encodable) throws -> [UInt8] {
            [UInt8](try JSONEncoder().encode(value))
        }

        private func call(
            _ call: VolumeCall, _ body: [UInt8], _ type: String = ContentType.json
        ) async throws -> (Int, String) { try await send(device.path(call), body, type) }

        private func get(_ call: VolumeCall) async throws -> (Int, String) {
            let reply = try await Wire.send(
                device.path(call), method: "GET", nil, token: device.token)
            return (reply.status, plain(reply.body))
        }

        private func send(
            _ url: String, _ body: [UInt8], _ type: String = ContentType.json
        ) async throws -> (Int, String) {
            let reply = try await Wire.send(url, body, token: device.token, type: type)
            return (reply.status, plain(reply.body))
        }

        private func status(ofFeed device: TestDevice) async throws -> (Int, String) {
            // The feed of a member would not end.
            let reply = try await Wire.open(device.path(.feed), token: device.token)
            return (reply.status, plain(reply.first))
        }

        private func plain(_ body: [UInt8]) -> String {
            // The order of keys in JSON is not the same each time.
            let failure = (try? JSONDecoder().decode(Failure.self, from: Data(body))).map {
                "\"\($0.code.rawValue)\" \($0.message)"
            }
            return (failure ?? String(decoding: body, as: UTF8.self))
                .replacing(device.volume.id.description, with: "ID")
        }
    }

    @Test("each operation × each role × each state", arguments: Standing.allCases)
    func decisions(_ standing: Standing) async throws {
        // Leaving comes last, because nothing is allowed afterwards.
        let operations = VolumeOperation.allCases.filter { $0 != .leave } + [.leave]
        try await RunningHub.with { hub in
            var scene = try await Scene(standing, at: hub)
            for operation in operations {
                let (status, body) = try await scene.attempt(operation)
                let expected = standing.answer(to: operation)
                let code = expected.map { Failure($0, "").status } ?? 200
                #expect(status == code, "\(operation): \(status) \(body)")
                if let expected, operation != .page, operation != .pageForm {
                    #expect(body.contains("\"\(expected.rawValue)\""), "\(operation): \(body)")
                }
            }
        }
    }

    /// Otherwise somebody could find out which volumes there are.
    @Test(
        "a volume is as unknown as one that does not exist",
        arguments: [Standing.removed, .never, .removedFromFolder])
    func unknown(_ standing: Standing) async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(standing, at: hub)
            for operation in VolumeOperation.allCases where operation != .open {
                let real = try await scene.attempt(operation)
                var other = scene
                other.device.volume.id = .random()
                let none = try await other.attempt(operation)
                #expect(real.0 == none.0 && real.1 == none.1, "\(operation): \(real) \(none)")
            }
            let volumes: VolumeList = try await Wire.get(
                hub.url + Routes.volumes, token: scene.device.token)
            #expect(volumes.volumes.map(\.name) == ["Documents"])
            let real = try await failure { try await scene.device.open("team", of: "anna") }
            let none = try await failure { try await scene.device.open("gone", of: "nobody") }
            #expect(
                real.message.replacing("team", with: "gone").replacing("anna", with: "nobody")
                    == none.message)
        }
    }

    @Test("members are listed, change and leave") func management() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            #expect(try await anna.members().map(\.user) == ["anna"])
            for (request, code) in [
                (MemberRequest(.add, "nobody", role: .editor), Failure.Code.notFound),
                (MemberRequest(.add, "bert", role: .owner), .malformed),
                (MemberRequest(.add, "bert"), .malformed),
                (MemberRequest(.remove, "bert"), .notFound),
                (MemberRequest(.remove, "bert", role: .reader), .malformed),
                (MemberRequest(.role, "bert", role: .reader), .notFound),
                (MemberRequest(.role, "anna", role: .reader), .forbidden),
                (MemberRequest(.add, "anna", role: .reader), .forbidden),
            ] {
                let refused = try await failure { try await anna.send(request) }
                #expect(refused.code == code, "\(request): \(refused)")
                #expect(refused.message.hasSuffix("."))
            }
            try await anna.change(.add, "bert", .reader)
            let refused1 = try await failure { try await anna.change(.add, "bert", .editor) }
            #expect(refused1.code == .taken)
            bert.volume = try await bert.open("team", of: "anna")
            #expect(bert.volume.role == .reader && bert.volume.owner == "anna")
            #expect(bert.volume.id == anna.volume.id && !bert.volume.created)
            let listed: VolumeList = try await Wire.get(
                hub.url + Routes.volumes, token: bert.token)
            #expect(listed.volumes.map(\.name) == ["Documents", "team"])
            #expect(listed.volumes[1].owner == "anna" && listed.volumes[1].role == .reader)
            let refused = try await failure { [bert] in
                var bert = bert
                return try await bert.commit([bert.directory("x")])
            }
            #expect(refused.code == .forbidden && refused.message.contains("reader"))
            try await anna.change(.role, "bert", .editor)
            try await bert.save("bert.txt", bytes("b"))
            #expect(try await bert.members().map(\.user) == ["anna", "bert"])
            #expect(try await bert.members().map(\.isSelf) == [false, true])
            try await bert.change(.remove, "bert")
            #expect(try await anna.members().map(\.user) == ["anna"])
            let refused2 = try await failure { [bert] in try await bert.members() }
            #expect(refused2.code == .notFound)
        }
    }

    @Test("names of users cannot be guessed without end") func guesses() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            for number in 0..<10 {
                let refused = try await failure {
                    try await anna.change(.add, "user\(number)", .reader)
                }
                #expect(refused.code == .notFound)
            }
            let refused = try await failure { try await anna.change(.add, "user", .reader) }
            #expect(refused.code == .tooMany)
        }
    }

    @Test("a code is not used up by the wrong name of a shared volume") func code() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            let code = try await hub.code("bert")
            var request = EnrolRequest(
                code: code, deviceName: "d", device: .random(),
                volume: VolumeRequest(name: "team", owner: "anna"))
            let url = hub.url + Routes.enrol
            let refused = try await failure {
                let answer: EnrolAnswer = try await Wire.post(url, request, token: nil)
                return answer
            }
            #expect(refused.code == .notFound && refused.message.contains("\"team\" of anna"))
            try await anna.change(.add, "bert", .editor)
            request.volume?.name = "taem"
            let misspelt = try await failure {
                let answer: EnrolAnswer = try await Wire.post(url, request, token: nil)
                return answer
            }
            #expect(misspelt.message.contains("You may use \"team\" of anna"))
            request.volume?.name = "team"
            let answer: EnrolAnswer = try await Wire.post(url, request, token: nil)
            #expect(answer.volumes.map(\.name) == ["team"])
        }
    }

    @Test("versions name the account that sent them, whatever the device says")
    func senders() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            try await anna.upload([bytes("1"), bytes("2"), bytes("3")])
            func save(_ device: inout TestDevice, _ name: String, _ text: String) async throws
                -> String?
            {
                let item = Identifier.random()
                var creation = Creation(
                    kind: .file, placement: device.placement(name),
                    revision: device.revision(of: bytes(text)))
                creation.revision?.note.person = "carl"
                try await device.commit([
                    device.entry(item, .create(creation), bytes: bytes(text))
                ])
                for case .item(let state) in try await device.changes().changes
                where state.id == item { return state.current?.note.person }
                return nil
            }
            // A volume of one account shows the people of the machine.
            let alone = try await save(&anna, "a", "1")
            #expect(alone == "carl")
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            let both = [try await save(&bert, "b", "2"), try await save(&anna, "c", "3")]
            #expect(both == ["bert", "anna"])
        }
    }

    @Test("the bytes of all members count to the owner's quota") func quota() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", quota: 100_000, volume: "team")
            var bert = try await hub.device(of: "bert", quota: 1)
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            let small = try await bert.save("small", [UInt8](repeating: 7, count: 50_000))
            #expect(small.refusal == nil)
            let refused = try await bert.save("large", [UInt8](repeating: 8, count: 80_000))
            #expect(refused.refusal?.code == .quota)
            let accounts = try await hub.hub.ledger.read { try $0.accounts() }
            #expect(accounts.first { $0.name == "bert" }?.used == 0)
            #expect(accounts.first { $0.name == "anna" }?.used ?? 0 >= 50_000)
        }
    }

    /// Chunks are kept once in a volume, and volumes share nothing that a member could ask for.
    @Test("a hostile member proves and reads nothing of another volume") func deduplication()
        async throws
    {
        try await RunningHub.with { hub in
            var anna = try await hub.device(of: "anna", volume: "team")
            var hidden = try await hub.device(of: "anna", volume: "private")
            var bert = try await hub.device(of: "bert")
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            try await anna.save("shared", bytes("shared"))
            try await hidden.save("salary", bytes("salary 4711"))
            let secret = bytes("salary 4711")
            // Under the ids of either volume, and under the id of the contents themselves.
            let ids = [bert.id(of: secret), hidden.id(of: secret), .sha256(secret)]
            #expect(try await bert.have(ids).present == [false, false, false])
            #expect(try await bert.read(ids).allSatisfy { $0.codec == .absent })
            // A version cannot name chunks that were never uploaded to this volume.
            var thief = bert
            let entry = thief.creation("stolen", secret)
            let refused3 = try await failure { try await thief.commit([entry]) }
            #expect(refused3.code == .missing)
            var direct = bert
            direct.volume.id = hidden.volume.id
            for id in ids {
                let refused4 = try await failure { [direct] in try await direct.have([id]) }
                #expect(refused4.code == .notFound)
                let refused5 = try await failure { [direct] in try await direct.read([id]) }
                #expect(refused5.code == .notFound)
            }
            let shared: [ChunkFrame] = try await bert.read([bert.id(of: bytes("shared"))])
            #expect(shared.first?.bytes == bytes("shared"))
        }
    }

    @Test("removing a member ends its feeds, also by another process") func feeds() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            let administration = try hub.administration()
            try await administration.change(
                MemberRequest(.add, "bert", role: .editor), in: "team", owner: "anna")
            bert.volume = try await bert.open("team", of: "anna")
            try await FeedTests().listen(bert) { lines in
                _ = try await lines.next()
                try await anna.change(.role, "bert", .reader)
                try await lines.skip(to: "its end") { $0.ended?.code == .forbidden }
            }
            try await FeedTests().listen(bert) { lines in
                _ = try await lines.next()
                try await anna.change(.remove, "bert")
                try await lines.skip(to: "its end") { $0.ended?.code == .forbidden }
            }
            let refused6 = try await failure { [bert] in try await bert.changes() }
            #expect(refused6.code == .notFound)
            try await anna.change(.add, "bert", .editor)
            try await FeedTests().listen(bert) { lines in
                _ = try await lines.next()
                try await administration.change(
                    MemberRequest(.remove, "bert"), in: "team", owner: "anna")
                try await lines.skip(to: "its end") { $0.ended?.code == .forbidden }
            }
            #expect(try await anna.members().map(\.user) == ["anna"])
            try administration.close()
        }
    }

    @Test("only members' devices count as holders of a version") func holders() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            try await anna.upload([bytes("x")])
            let entry = anna.creation("x", bytes("x"))
            try await anna.commit([entry])
            let id = entry.change.revision!.id
            let _: Done = try await Wire.post(
                bert.path(.holding), HoldingRequest(revisions: [id]), token: bert.token)
            func devices() async throws -> [Int?] {
                let answer: DurabilityAnswer = try await Wire.post(
                    anna.path(.durability), RevisionList(revisions: [id]), token: anna.token)
                return answer.devices
            }
            #expect(try await devices() == [2])
            try await anna.change(.remove, "bert")
            #expect(try await devices() == [1])
        }
    }

    @Test("a removed account leaves no memberships behind") func removedAccount() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            _ = try await hub.device(of: "bert", volume: "own")
            try await anna.change(.add, "bert", .editor)
            let administration = try hub.administration()
            try await administration.removeAccount("bert", withVolumes: true)
            let left = try await hub.hub.ledger.read { transaction in
                try transaction.rows("SELECT account FROM members", []).count
            }
            #expect(left == 1)
            try administration.close()
        }
    }
}

extension TestDevice {
    func open(_ name: String, of owner: String) async throws -> VolumeAnswer {
        try await Wire.post(
            url + Routes.volumes, VolumeRequest(name: name, owner: owner), token: token)
    }

    @discardableResult
    func send(_ request: MemberRequest) async throws -> [Member] {
        let answer: MemberList = try await Wire.post(path(.members), request, token: token)
        return answer.members
    }

    func change(_ change: MemberRequest.Change, _ user: String, _ role: Role? = nil) async throws {
        try await send(MemberRequest(change, user, role: role))
    }

    func members() async throws -> [Member] {
        let answer: MemberList = try await Wire.get(path(.members), token: token)
        return answer.members
    }
}
