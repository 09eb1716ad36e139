import ChunkStore
import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// What somebody without an account sees who has a link.
struct LinkPageTests {
    typealias Scene = LinkOperationTests.Scene

    @Test("a link shows the present contents, wherever the document is") func contents()
        async throws
    {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item).address
            var visitor = Surfer(hub.url)
            let first = try await visitor.get(link)
            #expect(first.status == 200)
            #expect(first.prose.contains("plan.txt") && first.text.contains(">plan</pre>"))
            #expect(first.prose.contains("4 bytes") && first.prose.contains("shared by anna"))
            let folder = Identifier.random()
            try await scene.anna.commit([scene.anna.directory("folder", id: folder)])
            let placement = scene.anna.placement("moved.txt", in: folder)
            try await scene.change(.move(placement, base: try await scene.state.placedBy))
            try await scene.save("newer contents")
            let page = try await visitor.get(link)
            #expect(page.prose.contains("moved.txt") && page.text.contains(">newer contents</pre>"))
            #expect(try await visitor.get(link + "/file").bytes == bytes("newer contents"))
            #expect(try await scene.anna.links().map(\.path) == ["folder/moved.txt"])
            // Nothing of the volume, its members or other versions is told.
            let volume = scene.anna.volume
            for text in [
                volume.id.description, volume.epoch.description, "team", "bert", "folder",
                "/web/v/",
            ] { #expect(!page.text.contains(text), "\(text)") }
        }
    }

    @Test("answers are private, and say nothing to others") func headers() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item).address
            var visitor = Surfer(hub.url)
            let paths = ["", "/file", "/preview", "/nothing"].map { link + $0 } + ["/s/x", "/s/"]
            for path in paths {
                let page = try await visitor.get(path)
                #expect(page["Referrer-Policy"] == "no-referrer")
                #expect(page["X-Robots-Tag"].contains("noindex"))
                #expect(page["Cache-Control"] == "private, no-store")
                #expect(page["X-Content-Type-Options"] == "nosniff")
                #expect(page["Content-Security-Policy"].contains("default-src 'none'"), "\(path)")
                #expect(page.all("Set-Cookie").isEmpty)
            }
            #expect(try await visitor.get(link)["X-Frame-Options"] == "DENY")
            let file = try await visitor.get(link + "/file")
            #expect(file["Content-Security-Policy"].hasPrefix("sandbox"))
            #expect(file["Content-Disposition"].hasPrefix("attachment; filename=\"plan.txt\""))
            let refused = try await visitor.post(link, [])
            #expect(refused.status == 405 && refused["Allow"] == "GET, HEAD")
            #expect(try await visitor.get(link, method: "HEAD").status == 200)
        }
    }

    @Test("a download is continued only with the same version") func ranges() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item).address
            var visitor = Surfer(hub.url)
            let part = try await visitor.get(link + "/file", method: "GET", ["Range": "bytes=1-2"])
            #expect(part.status == 206 && part.bytes == bytes("la"))
            let tag = part["ETag"]
            let next = try await visitor.get(
                link + "/file", method: "GET", ["Range": "bytes=3-", "If-Range": tag])
            #expect(next.status == 206 && next.bytes == bytes("n"))
            let old = try #require(try await scene.state.current)
            try await scene.save("another one")
            let whole = try await visitor.get(
                link + "/file", method: "GET", ["Range": "bytes=3-", "If-Range": tag])
            #expect(whole.status == 200 && whole.bytes == bytes("another one"))
            // A link does not show former versions.
            let former = try await visitor.get(link + "/file?revision=\(old.id)")
            #expect(former.status == 409 && !former.text.contains("plan"))
        }
    }

    /// Why a link does not work.
    enum Reason: CaseIterable, CustomTestStringConvertible {
        case unknown, ended, revoked, revokedByOwner, deviceRevoked, documentDeleted
        case makerDemoted, makerRemoved, makerLeft, accountRemoved, ownerRemoved
        case wrongPath, endedThenUnused

        var testDescription: String { "\(self)" }
    }

    @Test("each link that does not work gets the same answer", arguments: Reason.allCases)
    func dead(_ reason: Reason) async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let end = hub.hub.clock() + 60_000_000_000
            let link = try await scene.bert.link(scene.item, edits: true, ends: end)
            var visitor = Surfer(hub.url)
            var expected = try await visitor.get("/s/" + String(repeating: "x", count: 32))
            var address = link.address
            if reason != .endedThenUnused {
                #expect(try await visitor.get(address).status == 200)
            }
            switch reason {
            case .unknown: address = "/s/none"
            case .ended, .endedThenUnused: hub.advance(seconds: 61)
            case .revoked: _ = try await scene.bert.send(ShareLinkRequest(revoking: link.id))
            case .revokedByOwner:
                _ = try await scene.anna.send(ShareLinkRequest(revoking: link.id))
            case .deviceRevoked:
                _ = try await hub.hub.ledger.write { [bert = scene.bert.id] in
                    try $0.devices.revoke(bert, at: 1)
                }
            case .documentDeleted: try await scene.change(.delete(current: nil))
            case .makerDemoted: try await scene.anna.change(.role, "bert", .reader)
            case .makerRemoved: try await scene.anna.change(.remove, "bert")
            case .makerLeft: try await scene.bert.change(.remove, "bert")
            case .accountRemoved: try await remove("bert", at: hub)
            case .ownerRemoved: try await remove("anna", at: hub)
            case .wrongPath: address += "/v/0"
            }
            let paths = ["", "/file", "/preview", "/edit"]
            for path in reason == .wrongPath ? [""] : paths {
                let answer = try await visitor.get(address + path)
                #expect(answer.status == 404 && answer.bytes == expected.bytes, "\(path)")
            }
            let sent = try await visitor.upload(address + "/upload", [], [("a", bytes("b"))])
            #expect(sent.status == 404 && sent.bytes == expected.bytes)
            expected = try await visitor.post(address + "/password", [("password", "x")])
            #expect(expected.status == 404)
            if reason == .makerDemoted {
                // It stays dead when its maker becomes an editor again.
                try await scene.anna.change(.role, "bert", .editor)
                #expect(try await visitor.get(address).status == 404)
            }
            try await hub.checkIsSound()
        }
    }

    private func remove(_ user: String, at hub: RunningHub) async throws {
        let administration = try hub.administration()
        try await administration.removeAccount(user, withVolumes: true)
        try administration.close()
    }

    @Test("unknown links are counted, and a link that works is served all the same")
    func limit() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item).address
            var visitor = Surfer(hub.url)
            #expect(try await visitor.get(link).status == 200)
            var statuses: [Int] = []
            for number in 0..<12 { statuses.append(try await visitor.get("/s/\(number)").status) }
            #expect(statuses == Array(repeating: 404, count: 10) + [429, 429])
            #expect(try await visitor.get(link).status == 200)
            // They count together with wrong codes.
            let refused = try await failure { try await hub.device(of: "carl") }
            #expect(refused.code == .tooMany)
            hub.advance(seconds: 61)
            #expect(try await visitor.get("/s/x").status == 404)
        }
    }

    @Test("a deleted document's link works again when it is undeleted") func undeleted()
        async throws
    {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item).address
            var visitor = Surfer(hub.url)
            try await scene.change(.delete(current: nil))
            #expect(try await visitor.get(link).status == 404)
            #expect(try await scene.anna.links().map(\.isDeleted) == [true])
            try await scene.change(.restore)
            #expect(try await visitor.get(link).status == 200)
        }
    }

    @Test("the files of a package are downloaded one by one") func packages() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            try await scene.anna.upload([bytes("one"), bytes("two")])
            let manifest = Manifest(
                entries: ["one", "two"].map { name in
                    let chunk = ChunkReference(id: .sha256(bytes(name)), length: 3)
                    return Manifest.Entry(path: bytes(name), size: 3, chunks: [chunk])
                })
            let names = try await hub.names(scene.anna)
            let revision = Revision(
                id: .random(), parents: [], content: names.content(manifest), size: 6,
                moment: Moment(time: 1, device: scene.anna.id))
            let creation = Creation(
                kind: .package, placement: scene.anna.placement("p.rtfd"), revision: revision)
            var entry = scene.anna.entry(.random(), .create(creation))
            let ids = [bytes("one"), bytes("two")].map { scene.anna.id(of: $0) }
            entry.content = RevisionContent(
                manifest: manifest.encoded, chunks: ids.sorted())
            try await scene.anna.commit([entry])
            let item = try #require(try await scene.anna.aliveItems()["p.rtfd"])
            let link = try await scene.anna.link(item.id, edits: true).address
            var visitor = Surfer(hub.url)
            let page = try await visitor.get(link)
            #expect(page.prose.contains("Files in this package"))
            #expect(!page.text.contains(link + "/upload"), "a package is not replaced by a file")
            let found = try #require(page.text.firstMatch(of: /href="([^"]*entry=1)" download/)?.1)
            let file = String(found).replacing("&amp;", with: "&")
            #expect(file.hasPrefix(link))
            #expect(try await visitor.get(file).bytes == bytes("two"))
            #expect(try await visitor.get(link + "/file?entry=2").status == 404)
        }
    }

    @Test("pictures, PDF documents and other files are shown as the pages show them")
    func previews() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            var visitor = Surfer(hub.url)
            for (name, mark) in [
                ("a.png", "<img class=\"preview\""), ("a.pdf", "<iframe class=\"preview\""),
                ("a.zip", "Download"),
            ] {
                try await scene.anna.save(name, bytes("contents of \(name)"))
                let item = try #require(try await scene.anna.aliveItems()[name])
                let link = try await scene.anna.link(item.id).address
                let page = try await visitor.get(link)
                #expect(page.text.contains(mark), "\(name)")
                #expect(!page.text.contains("/web/v"), "\(name)")
                let preview = try await visitor.get(link + "/preview")
                #expect(preview.bytes == bytes("contents of \(name)"))
            }
        }
    }
}
