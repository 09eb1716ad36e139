import AsyncHTTPClient
import Foundation
import Hub
import HubPages
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// The pages about devices and changes.
struct PageDeviceTests {
    @Test func aDeviceIsRevokedByAForm() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let stranger = try await hub.device(of: "bert")
            var browser = try await hub.surfer()
            let page = try await browser.get("/web/devices")
            #expect(page.prose.contains("this browser"))
            #expect(!page.text.contains(stranger.id.description.prefix(8)))
            let revoke = "/web/devices/\(device.id)/revoke"
            let token = [("token", page.fields("token")[0])]
            #expect(page.text.contains("action=\"\(revoke)\""))
            #expect(try await browser.get(revoke).status == 405)
            #expect(try await browser.post(revoke, []).status == 400)
            _ = try await device.changes()
            let other = "/web/devices/\(stranger.id)/revoke"
            #expect(try await browser.post(other, token).status == 404)
            _ = try await stranger.changes()
            #expect(try await browser.post(revoke, token).status == 303)
            let refused = try await failure { _ = try await device.changes() }
            #expect(refused.code == .unauthenticated)
            let after = try await browser.get("/web/devices?done=revoked")
            #expect(after.prose.contains("Revoked devices"))
            #expect(!after.text.contains("action=\"\(revoke)\""))
        }
    }

    @Test func aBrowserThatRevokesItselfIsSignedOut() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let page = try await browser.get("/web/devices")
            let form = try #require(
                page.text.firstMatch(of: /action="(\/web\/devices\/\w+\/revoke)"/))
            let answer = try await browser.post(
                String(form.1), [("token", page.fields("token")[0])])
            #expect(answer.status == 303 && answer["Location"] == "/web/signin")
            #expect(try await browser.get("/web").status == 303)
        }
    }

    @Test func aBrowserWhoseSessionEndedIsShownAsSignedOut() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.surfer()
            hub.advance(seconds: 13 * 3600)
            var browser = try await hub.surfer()
            let page = try await browser.get("/web/devices")
            #expect(page.text.components(separatedBy: "signed out</span>").count == 2)
        }
    }

    @Test func theLastChangesOfAVolumeAreListed() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            var browser = try await hub.surfer()
            let changes = "/web/v/\(device.volume.id)/\(Identifier.root)/activity"
            #expect(try await browser.get(changes).prose.contains("Nothing was saved"))
            let (file, folder) = (Identifier.random(), Identifier.random())
            try await device.upload([bytes("one"), bytes("two")])
            let creation = device.creation("<b>.txt", bytes("one"), id: file)
            try await device.commit([creation, device.directory("folder", id: folder)])
            var rows = try await self.rows(&browser, changes)
            #expect(rows == ["folder: created or moved, device", "<b>.txt: created, device"])
            let first = try #require(creation.change.revision)
            try await device.commit([
                device.entry(
                    file, .edit(device.revision(of: bytes("two"), parents: [first.id])),
                    bytes: bytes("two"))
            ])
            var delete = device.entry(folder, .delete(current: nil))
            delete.base = try await device.changes().head
            try await device.commit([delete])
            rows = try await self.rows(&browser, changes)
            #expect(rows == ["folder: deleted, device", "<b>.txt: saved, device"])
            let other = "/web/v/\(device.volume.id)/\(file)/activity"
            #expect(try await browser.get(other).status == 404)
        }
    }

    /// The rows of the page as `NAME: CHANGE`.
    private func rows(_ browser: inout Surfer, _ address: String) async throws -> [String] {
        let page = try await browser.get(address)
        return page.text.components(separatedBy: "<tr>").dropFirst(2).map { row in
            let name = row.components(separatedBy: "<bdi>")[1].components(separatedBy: "<")[0]
            let what = row.components(separatedBy: "class=\"what\">")[1]
                .components(separatedBy: "</td>")[0].replacing(/<[^>]*>/, with: "")
            return "\(name.replacing("&lt;", with: "<").replacing("&gt;", with: ">")): \(what)"
        }
    }

    /// A heartbeat would notice that, too, but a person goes through many pages in between.
    @Test func aPageThatWasLeftHasNoFeed() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let browser = try await hub.surfer()
            let path = "/web/v/\(device.volume.id)/\(Identifier.root)/events"
            let cookies = browser.cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            let client = HTTPClient(eventLoopGroupProvider: .singleton)
            var request = HTTPClientRequest(url: hub.url + path)
            request.headers.add(name: "Cookie", value: cookies)
            let response = try await client.execute(request, timeout: .seconds(60))
            var parts = response.body.makeAsyncIterator()
            _ = try await parts.next()
            let caller = try await hub.hub.devices.caller(token: device.token)
            let other = hub.hub.feeds.open(
                device.volume.id, caller: caller,
                standing: MemberStanding(role: .owner, members: 1), token: .sha256([]),
                epoch: device.volume.epoch, process: nil)
            #expect(hub.hub.feeds.count == 2)
            try await client.shutdown()
            var polls = 0
            while hub.hub.feeds.count > 1 {
                if other.next(at: 1)?.beat != nil || polls > 0 { polls += 1 }
                if polls > 100 {
                    Issue.record("the feed is still open after a heartbeat")
                    break
                }
                try await Task.sleep(for: .milliseconds(10))
            }
            hub.hub.feeds.close(other)
        }
    }

    @Test func changesAreAnnouncedUntilTheSessionEnds() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let browser = try await hub.surfer()
            let path = "/web/v/\(device.volume.id)/\(Identifier.root)/events"
            var nobody = Surfer(hub.url)
            #expect(try await nobody.get(path).status == 303)
            var request = HTTPClientRequest(url: hub.url + path)
            let cookies = browser.cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            request.headers.add(name: "Cookie", value: cookies)
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
            #expect(response.headers["Content-Type"] == ["text/event-stream"])
            var parts = response.body.makeAsyncIterator()
            let epoch = device.volume.epoch
            var heard = ""
            for (number, name) in ["one", "two"].enumerated() {
                while !heard.contains("data: \(epoch)-\(number)\n\n") {
                    let part = try #require(try await parts.next(), "the events ended: \(heard)")
                    heard += String(decoding: part.readableBytesView, as: UTF8.self)
                }
                try await device.commit([device.directory(name)])
            }
            let administration = try hub.administration()
            let own = try await administration.devices().first { $0.device.id != device.id }
            var other = browser
            let page = try await other.get("/web/devices")
            _ = try await other.post(
                "/web/devices/\(try #require(own).device.id)/revoke",
                [("token", page.fields("token")[0])])
            while try await parts.next() != nil {}
        }
    }
}
