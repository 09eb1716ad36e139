import HubProtocol
import Model
import Support
import Testing

@testable import Hub

/// The pages on which a signed-in account makes, lists and revokes links.
struct SharePageTests {
    typealias Scene = LinkOperationTests.Scene

    @Test("a link is made, shown once, listed and revoked") func life() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            var browser = try await hub.surfer("anna")
            let volume = "/web/v/\(scene.anna.volume.id)"
            let target = "\(volume)/\(scene.item)/links"
            #expect(try await browser.get("\(volume)/\(scene.item)").text.contains(target))
            let empty = try await browser.get(target)
            #expect(empty.prose.contains("There are no links."))
            let fields = [("token", try #require(empty.fields("token").first)), ("change", "make")]
            let before = hub.hub.clock()
            let made = try await browser.post(
                target, fields + [("days", "7"), ("edits", "1"), ("password", "correct horse")])
            #expect(made.status == 200)
            let address = try #require(made.text.firstMatch(of: /value="([^"]*\/s\/[^"]*)"/)?.1)
            #expect(address.hasPrefix(hub.url + "/s/"))
            var visitor = Surfer(hub.url)
            let path = String(address.dropFirst(hub.url.count))
            #expect(try await visitor.get(path).prose.contains("Password"))
            let link = try #require(try await scene.anna.links().first)
            #expect(link.edits && link.hasPassword && link.item == scene.item)
            let week: Int64 = 7 * 86_400_000_000_000
            #expect((before + week...hub.hub.clock() + week).contains(try #require(link.ends)))
            // It is listed, without its address, on the pages of the document and the volume.
            let list = "\(volume)/\(Identifier.root)/links"
            #expect(try await browser.get(volume).text.contains(list))
            for page in [target, list] {
                let shown = try await browser.get(page)
                #expect(shown.text.contains(String(link.id.description.prefix(8))))
                #expect(!shown.text.contains(path))
                #expect(shown.prose.contains("plan.txt"))
            }
            let revoke = try await browser.get(list).form(to: list)
            let revoked = try await browser.post(list, revoke)
            #expect(revoked.status == 303 && revoked["Location"] == list + "?done=revoked")
            #expect(try await browser.get(revoked["Location"]).prose.contains("is revoked"))
            #expect(try await scene.anna.links().isEmpty)
            #expect(try await visitor.get(path).status == 404)
        }
    }

    @Test("forms of others, of readers and about folders are refused") func refusals()
        async throws
    {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let volume = "/web/v/\(scene.anna.volume.id)"
            let target = "\(volume)/\(scene.item)/links"
            var bert = try await hub.surfer("bert")
            let token = try #require(try await bert.get(target).fields("token").first)
            let make = [("token", token), ("change", "make"), ("days", "")]
            let noToken = try await bert.post(target, [("change", "make"), ("days", "")])
            #expect(noToken.status == 400)
            let foreign = try await bert.post(target, make, ["Sec-Fetch-Site": "cross-site"])
            #expect(foreign.status == 400)
            for days in ["0", "-1", "x", "99999999999999999999"] {
                let refused = try await bert.post(target, Array(make.dropLast()) + [("days", days)])
                #expect(refused.status == 400, "\(days)")
            }
            let ofVolume = try await bert.post("\(volume)/\(Identifier.root)/links", make)
            #expect(ofVolume.status == 400)
            #expect(try await scene.anna.links().isEmpty)
            #expect(try await bert.post(target, make).status == 200)
            // Bert's link is gone when he becomes a reader, and he sees no form any more.
            try await scene.anna.change(.role, "bert", .reader)
            #expect(try await scene.anna.links().isEmpty)
            let page = try await bert.get(target)
            #expect(page.status == 200 && !page.text.contains("value=\"make\""))
            #expect(try await !bert.get("\(volume)/\(scene.item)").text.contains(target))
            #expect(try await bert.post(target, make).status == 403)
            try await scene.anna.change(.remove, "bert")
            #expect(try await bert.get(target).status == 404)
            #expect(try await bert.post(target, make).status == 404)
        }
    }
}
