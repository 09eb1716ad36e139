import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub
@testable import HubWebDAV

/// Properties that programs set.
struct WebDAVPropertyTests {
    private let base = "/dav/Documents/"

    static let update = """
        <propertyupdate xmlns="DAV:"><set><prop><x xmlns="urn:x">1</x></prop></set></propertyupdate>
        """

    @Test func deadPropertiesFollowTheItem() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            let set = """
                <D:propertyupdate xmlns:D="DAV:" xml:lang="de"><D:set><D:prop>
                <x xmlns="urn:x">a &lt; <b>c</b></x></D:prop></D:set></D:propertyupdate>
                """
            let answer = try await client.send("PROPPATCH", base + "a", bytes(set))
            #expect(answer.status == 207 && answer.values("status") == ["HTTP/1.1 200 OK"])
            let stored = "<x xmlns=\"urn:x\" xml:lang=\"de\">a &lt; <b>c</b></x>"
            func shown(_ name: String) async throws -> Bool {
                try await client.list(base + name, depth: "0").text.contains(stored)
            }
            #expect(try await shown("a"))
            let attributes = try #require(try await device.aliveItems()["a"]).attributes
            #expect(attributes.keys.contains { $0.hasPrefix("x:user.webdav.") })
            #expect(
                try await client.status("COPY", base + "a", nil, ["Destination": base + "b"]) == 201
            )
            #expect(
                try await client.status("MOVE", base + "a", nil, ["Destination": base + "c"]) == 201
            )
            #expect(try await client.status("PUT", base + "d", bytes("2")) == 201)
            #expect(
                try await client.status("MOVE", base + "c", nil, ["Destination": base + "d"]) == 204
            )
            let (b, d) = (try await shown("b"), try await shown("d"))
            #expect(b && d)
            let live = """
                <propertyupdate xmlns="DAV:"><remove><prop><x xmlns="urn:x"/></prop></remove>
                <set><prop><getetag>x</getetag></prop></set></propertyupdate>
                """
            let refused = try await client.send("PROPPATCH", base + "b", bytes(live))
            #expect(
                refused.values("status") == [
                    "HTTP/1.1 403 Forbidden", "HTTP/1.1 424 Failed Dependency",
                ])
            #expect(refused.text.contains("cannot-modify-protected-property"))
            #expect(try await shown("b"))
            let remove = set.replacing("D:set", with: "D:remove")
            #expect(try await client.status("PROPPATCH", base + "b", bytes(remove)) == 207)
            #expect(try await !shown("b"))
            #expect(try await client.status("PROPPATCH", "/dav/Documents/", bytes(set)) == 403)
            let long = Self.update.replacing(
                ">1<", with: ">" + String(repeating: "1", count: 17 << 10) + "<")
            let tooLong = try await client.send("PROPPATCH", base + "b", bytes(long))
            #expect(tooLong.values("status") == ["HTTP/1.1 507 Insufficient Storage"])
        }
    }

    /// A hostile device has set the attribute itself.
    @Test func attributesThatAreNoPropertiesAreNotShown() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let item = try await device.make("a", contents: bytes("a"), by: names)
            let key = DeadProperties.key(ElementName("u", "a"))
            let values = [
                "<a xmlns=\"u\">", "<evil/>", "</D:prop>", "", "<!DOCTYPE a><a xmlns=\"u\"/>",
            ]
            let client = try await hub.client()
            for value in values {
                try await device.commit([device.entry(item, .attribute(key, bytes(value)))])
                let answer = try await client.list(base + "a", depth: "0")
                _ = try ElementParser.parse(answer.bytes)
                #expect(!answer.text.contains("xmlns=\"u\"") && !answer.text.contains("evil"))
            }
        }
    }
}
