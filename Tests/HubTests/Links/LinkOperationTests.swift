import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Making, listing and revoking links for people without an account.
struct LinkOperationTests {
    /// A volume of anna with a document, of which bert is an editor.
    struct Scene {
        let hub: RunningHub
        var anna: TestDevice
        var bert: TestDevice
        let item: Identifier

        init(_ hub: RunningHub) async throws {
            self.hub = hub
            anna = try await hub.device(of: "anna", volume: "team")
            bert = try await hub.device(of: "bert")
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            item = .random()
            try await anna.upload([bytes("plan")])
            try await anna.commit([anna.creation("plan.txt", bytes("plan"), id: item)])
        }

        /// The document, wherever it is.
        var state: ItemState {
            get async throws {
                let found = try await anna.aliveItems().values.first { $0.id == item }
                return try #require(found)
            }
        }

        /// Changes the document as a device of anna that has seen everything.
        mutating func change(_ change: Change, _ contents: [UInt8]? = nil) async throws {
            let operation = Operation(
                id: OperationID(device: anna.id, epoch: anna.epoch, number: anna.number),
                item: item, moment: Moment(time: 1, device: anna.id),
                base: try await anna.changes().head, change: change)
            anna.number += 1
            let content = contents.map { anna.content(of: $0) }
            try await anna.commit([OperationEntry(operation, content: content)])
        }

        /// Saves a new version of the document.
        mutating func save(_ text: String) async throws {
            try await anna.upload([bytes(text)])
            let parents = try await state.current.map { [$0.id] } ?? []
            try await change(.edit(anna.revision(of: bytes(text), parents: parents)), bytes(text))
        }
    }

    @Test("a link is made, listed and revoked") func life() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let time = hub.hub.clock()
            let made = try await scene.anna.send(
                ShareLinkRequest(
                    linkTo: scene.item, edits: true, password: "correct horse",
                    ends: time + 3_600_000_000_000))
            let link = try #require(made.links.first)
            let token = try #require(made.token)
            #expect(made.links.count == 1 && token.utf8.count == 32)
            #expect(link.path == "plan.txt" && link.maker == "anna" && link.item == scene.item)
            #expect(link.edits && link.hasPassword && !link.hasEnded && !link.isDeleted)
            #expect(link.ends == time + 3_600_000_000_000 && link.used == nil)
            #expect(try await scene.anna.links() == [link])
            let devices: DeviceList = try await Wire.get(
                hub.url + Routes.devices, token: scene.anna.token)
            #expect(devices.devices.map(\.id) == [scene.anna.id])
            // Neither the token nor the password is stored.
            let path = hub.directory.ledgerPath
            let ledger = try [path, path + "-wal"].map { try Data(contentsOf: URL(filePath: $0)) }
                .reduce(Data(), +)
            #expect(ledger.range(of: Data(token.utf8)) == nil)
            #expect(ledger.range(of: Data("correct horse".utf8)) == nil)
            hub.advance(seconds: 3601)
            #expect(try await scene.anna.links().map(\.hasEnded) == [true])
            let left = try await scene.anna.send(ShareLinkRequest(revoking: link.id))
            #expect(left == ShareLinkList(links: []))
            try await hub.checkIsSound()
        }
    }

    @Test("the owner sees and revokes all links, others their own") func reach() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let ofAnna = try await scene.anna.link(scene.item)
            let ofBert = try await scene.bert.link(scene.item)
            #expect(try await scene.bert.links().map(\.id) == [ofBert.id])
            #expect(Set(try await scene.anna.links().map(\.id)) == [ofAnna.id, ofBert.id])
            let refused = try await failure {
                try await scene.bert.send(ShareLinkRequest(revoking: ofAnna.id))
            }
            #expect(refused.code == .notFound)
            _ = try await scene.anna.send(ShareLinkRequest(revoking: ofBert.id))
            #expect(try await scene.bert.links().isEmpty)
            #expect(try await scene.anna.links().map(\.id) == [ofAnna.id])
        }
    }

    @Test("each bad request gets a sentence") func refusals() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let folder = Identifier.random()
            try await scene.anna.commit([scene.anna.directory("folder", id: folder)])
            var both = ShareLinkRequest(revoking: .random())
            both.item = scene.item
            for (request, code) in [
                (ShareLinkRequest(linkTo: .random()), Failure.Code.notFound),
                (ShareLinkRequest(linkTo: .root), .malformed),
                (ShareLinkRequest(linkTo: folder), .malformed),
                (ShareLinkRequest(linkTo: scene.item, password: "short"), .malformed),
                (
                    ShareLinkRequest(
                        linkTo: scene.item, password: String(repeating: "x", count: 256)),
                    .malformed
                ),
                (ShareLinkRequest(linkTo: scene.item, ends: 1), .malformed),
                (ShareLinkRequest(linkTo: scene.item, ends: -1), .malformed),
                (ShareLinkRequest(revoking: .random()), .notFound),
                (both, .malformed),
            ] {
                let refused = try await failure { [scene] in try await scene.anna.send(request) }
                #expect(refused.code == code, "\(request): \(refused)")
                #expect(refused.message.hasSuffix("."))
            }
            #expect(try await scene.anna.links().isEmpty)
        }
    }

    /// A device that has a link's id would be in no list of devices.
    @Test("a link's id is no device's") func ids() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item)
            let code = try await hub.code("anna")
            let refused = try await failure {
                let request = EnrolRequest(code: code, deviceName: "hidden", device: link.id)
                let _: EnrolAnswer = try await Wire.post(
                    hub.url + Routes.enrol, request, token: nil)
            }
            #expect(refused.code == .taken)
            var visitor = Surfer(hub.url)
            #expect(try await visitor.get(link.address).status == 200)
            // Revoking it as a device revokes the link.
            let reply = try await Wire.send(
                hub.url + Routes.device(link.id), method: "DELETE", nil, token: scene.anna.token)
            #expect(reply.status == 200)
            #expect(try await visitor.get(link.address).status == 404)
            #expect(try await scene.anna.links().isEmpty)
        }
    }

    /// The token is valid for nothing else than the link's pages.
    @Test("a link's token is neither a device's nor a browser's") func tokens() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let address = try await scene.anna.link(scene.item, edits: true).address
            let token = String(address.dropFirst(Routes.links.count + 1))
            for word in [token, "ccs_" + token, "cct_" + token] {
                let refused = try await failure {
                    let _: ShareLinkList = try await Wire.get(
                        scene.anna.path(.links), token: word)
                }
                #expect(refused.code == .unauthenticated)
                var browser = Surfer(hub.url)
                browser.cookies = ["concord-session": word]
                let page = try await browser.get("/web/v/\(scene.anna.volume.id)")
                #expect(page.status == 303 && page["Location"].hasPrefix("/web/signin"))
            }
        }
    }

    @Test("a volume has a bounded number of links") func limit() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let (volume, anna) = (scene.anna.volume.id, scene.anna.id)
            try await hub.hub.ledger.write { transaction in
                let account = try #require(try transaction.devices.owner(of: anna))
                for number in 0..<HubLimits.links {
                    let row = LinkRow(
                        id: .random(), volume: volume, item: scene.item, account: account,
                        device: anna, edits: false, made: 1, ends: nil, password: nil)
                    try transaction.links.add(row, token: .sha256([UInt8](number.description.utf8)))
                }
            }
            let refused = try await failure { try await scene.anna.link(scene.item) }
            #expect(refused.code == .quota)
            #expect(try await scene.anna.links().count == HubLimits.links)
        }
    }

    @Test("the password is stored as a slow hash with a salt") func passwords() {
        let (one, two) = (LinkPassword(of: "correct horse"), LinkPassword(of: "correct horse"))
        #expect(one != two)
        #expect(one.matches("correct horse") && LinkPassword(bytes: one.bytes) == one)
        #expect(!one.matches("correct hors") && !one.matches(""))
        #expect(!LinkPassword(bytes: []).matches(""))
    }
}

extension TestDevice {
    @discardableResult
    func send(_ request: ShareLinkRequest) async throws -> ShareLinkList {
        try await Wire.post(path(.links), request, token: token)
    }

    func links() async throws -> [ShareLink] {
        let list: ShareLinkList = try await Wire.get(path(.links), token: token)
        return list.links
    }

    /// Makes a link.
    func link(
        _ item: Identifier, edits: Bool = false, password: String? = nil, ends: Int64? = nil
    ) async throws -> (id: Identifier, address: String) {
        let made = try await send(
            ShareLinkRequest(linkTo: item, edits: edits, password: password, ends: ends))
        guard let link = made.links.first, let token = made.token else {
            throw SupportError("no link")
        }
        return (link.id, "\(Routes.links)/\(token)")
    }
}
