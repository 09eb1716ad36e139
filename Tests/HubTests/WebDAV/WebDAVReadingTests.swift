import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub
@testable import HubWebDAV

/// What a program sees by WebDAV.
struct WebDAVReadingTests {
    @Test func volumesAreListedWithTheirOwners() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device(volume: "Docs")
            let other = try await hub.device(of: "bert", volume: "Photos")
            _ = try await hub.device(of: "bert", volume: "Secret")
            let add = MemberRequest(.add, "anna", role: .reader)
            let _: MemberList = try await Wire.post(
                other.path(.members), add, token: other.token)
            let client = try await hub.client()
            let answer = try await client.list("/dav/")
            #expect(answer.status == 207)
            #expect(answer.addresses == ["/dav/", "/dav/Docs/", "/dav/bert@Photos/"])
            #expect(try await client.list("/dav/bert%40Photos").status == 207)
            for path in ["/dav/Photos", "/dav/bert@Secret", "/dav/nothing", "/dav/anna@Docs"] {
                #expect(try await client.list(path).status == 404, "\(path)")
            }
        }
    }

    @Test func labelsOfVolumesAreNeverTheSame() {
        func access(_ name: String, _ owner: String?) -> VolumeAccess {
            VolumeAccess(
                volume: VolumeRow(
                    id: .random(), account: .random(), name: name, epoch: .random(), chunkKey: [],
                    nameKey: [], head: 0, collection: 0),
                role: .reader, owner: owner)
        }
        let all = [access("b@c", nil), access("..", nil), access("c", "b"), access("d", "b")]
        let labels = VolumeLabels(all).all.map(\.label)
        let ids = all.map(\.volume.id.description)
        #expect(labels == ["b@c", ids[1], ids[2], "b@d"])
    }

    @Test func aFolderIsListedPageByPage() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let folder = try await device.make("many", .directory, by: names)
            var entries: [OperationEntry] = []
            for number in 0..<450 {
                let placement = names.placement("n \(number)", in: folder, device: "d", at: 1)
                entries.append(
                    device.entry(
                        .random(), .create(Creation(kind: .directory, placement: placement))))
            }
            try await device.commit(entries)
            let client = try await hub.client()
            let answer = try await client.list("/dav/Documents/many/")
            let expected =
                ["/dav/Documents/many/"] + (0..<450).map { "/dav/Documents/many/n \($0)/" }
            #expect(answer.addresses.count == 451 && Set(answer.addresses) == Set(expected))
            _ = try ElementParser.parse(
                Array(try await client.list("/dav/Documents/", depth: "1").bytes))
        }
    }

    @Test func infiniteDepthIsRefused() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            for headers in [["Depth": "infinity"], [:]] {
                let answer = try await client.send("PROPFIND", "/dav/Documents/", nil, headers)
                #expect(answer.status == 403 && answer.text.contains("propfind-finite-depth"))
            }
            #expect(try await client.list("/dav/Documents/", depth: "2").status == 400)
            let options = try await client.send("OPTIONS", "/dav/")
            #expect(options.status == 200 && options["DAV"].hasPrefix("1"))
        }
    }

    @Test func propertiesAreThoseOfTheItem() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let odd = "<é & \"\u{1}?>.txt"
            try await device.make(odd, contents: bytes("contents"), by: names)
            let client = try await hub.client()
            let path = Address(["Documents", odd]).path(isCollection: false)
            let answer = try await client.list(path, depth: "0")
            #expect(answer.addresses == ["/dav/Documents/" + odd])
            #expect(answer.values("displayname") == ["&lt;é &amp; &quot;\u{FFFD}?&gt;.txt"])
            #expect(answer.values("getcontentlength") == ["8"])
            #expect(answer.values("getcontenttype") == ["text/plain; charset=utf-8"])
            let file = try await client.send("GET", path)
            #expect(file["ETag"].replacing("\"", with: "&quot;") == answer.values("getetag")[0])
            let decomposed = odd.decomposedStringWithCanonicalMapping
            let same = Address(["Documents", decomposed]).path(isCollection: false)
            #expect(try await client.status("GET", same) == 200)
            let some = try await client.list(
                path, depth: "0",
                """
                <propfind xmlns="DAV:"><prop><getetag/><quota-used-bytes/><x xmlns="u"/></prop>
                </propfind>
                """)
            #expect(some.values("status") == ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"])
            #expect(some.text.contains("<x xmlns=\"u\"/>"))
            let all = try await client.list(
                path, depth: "0", "<propfind xmlns=\"DAV:\"><propname/></propfind>")
            #expect(all.text.contains("<D:getetag/>") && !all.text.contains("&quot;"))
            for body in ["<propfind xmlns=\"DAV:\"/>", "<other/>", "<a>", "<!DOCTYPE a><a/>"] {
                #expect(try await client.list(path, depth: "0", body).status == 400, "\(body)")
            }
        }
    }

    @Test func contentsAreSentWholeAndInParts() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let contents = bytes("0123456789")
            try await device.make("a.html", contents: contents, by: names)
            try await device.make("empty", by: names)
            let client = try await hub.client()
            let path = "/dav/Documents/a.html"
            let whole = try await client.send("GET", path)
            #expect(whole.status == 200 && whole.bytes == contents)
            #expect(whole["Content-Security-Policy"].contains("sandbox"))
            #expect(!whole["Content-Type"].contains("html"))
            #expect(whole["X-Content-Type-Options"] == "nosniff")
            let head = try await client.send("HEAD", path)
            #expect(head.status == 200 && head.bytes.isEmpty && head["Content-Length"] == "10")
            let part = try await client.send("GET", path, nil, ["Range": "bytes=2-4"])
            #expect(part.status == 206 && part.bytes == bytes("234"))
            #expect(try await client.status("GET", path, nil, ["Range": "bytes=10-"]) == 416)
            let tag = whole["ETag"]
            for (headers, status) in [
                (["If-None-Match": tag], 304), (["If-None-Match": "\"x\", W/\(tag)"], 304),
                (["If-None-Match": "\"x\""], 200), (["If-Match": tag], 200),
                (["If-Match": "*"], 200),
                (["If-Match": "\"x\""], 412), (["If-Match": "W/\(tag)"], 412),
                (["Range": "bytes=0-1", "If-Range": tag], 206),
                (["Range": "bytes=0-1", "If-Range": "\"x\""], 200),
            ] {
                #expect(try await client.status("GET", path, nil, headers) == status, "\(headers)")
            }
            let empty = try await client.send("GET", "/dav/Documents/empty")
            #expect(empty.status == 200 && empty.bytes.isEmpty)
            for path in ["/dav/Documents/", "/dav/", "/dav/Documents"] {
                #expect(try await client.status("GET", path) == 405)
            }
            for path in ["/dav/Documents/nothing", "/dav/Documents/a.html/b", "/dav/x/y"] {
                #expect(try await client.status("GET", path) == 404)
            }
        }
    }

    /// A few bytes of a manifest can stand for millions of chunks, which take memory in a list.
    @Test func packagesWithTooManyChunksAreRefused() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let chunk = bytes("0123456789")
            let large = [(path: "large", contents: chunk)]
            _ = try await device.makePackage("p.rtfd", large, names, repeats: 1_500_000)
            _ = try await device.makePackage("q.rtfd", large, names)
            let client = try await hub.client()
            let base = "/dav/Documents/"
            #expect(try await client.list(base).status == 207)
            #expect(try await client.status("GET", base + "p.rtfd/large") == 503)
            #expect(try await client.list(base + "p.rtfd").status == 503)
            #expect(try await client.send("GET", base + "q.rtfd/large").bytes == chunk)
        }
    }

    @Test func aPackageIsAFolderAndLinksAreNotShown() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            _ = try await device.makePackage(
                "notes.rtfd", [("TXT.rtf", bytes("text")), ("sub/b c.png", bytes("picture"))],
                names)
            try await device.make("link", .symlink, by: names, target: "/etc/passwd")
            let client = try await hub.client()
            let base = "/dav/Documents/"
            #expect(try await client.list(base).addresses == [base, base + "notes.rtfd/"])
            #expect(
                Set(try await client.list(base + "notes.rtfd").addresses)
                    == Set(["", "TXT.rtf", "sub/"].map { base + "notes.rtfd/" + $0 }))
            #expect(
                try await client.list(base + "notes.rtfd/sub").addresses
                    == [base + "notes.rtfd/sub/", base + "notes.rtfd/sub/b c.png"])
            let part = try await client.send("GET", base + "notes.rtfd/sub/b%20c.png")
            #expect(part.status == 200 && part.bytes == bytes("picture"))
            for path in [
                "notes.rtfd/link", "notes.rtfd/x", "link", "link/x", "notes.rtfd/TXT.rtf/x",
            ] {
                #expect(try await client.list(base + path).status == 404, "\(path)")
                #expect(try await client.status("GET", base + path) == 404, "\(path)")
            }
        }
    }
}
