import AsyncHTTPClient
import ChunkStore
import Foundation
import HTTPTypes
import HubProtocol
import Hummingbird
import Model
import NIOCore
import Reconcile
import Support
import Testing

@testable import Hub
@testable import HubWebDAV

/// What a program changes by WebDAV.
struct WebDAVWritingTests {
    private let base = "/dav/Documents/"

    @Test func aDocumentIsCreatedAndSavedAsADeviceDoes() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            let created = try await client.send("PUT", base + "a.txt", bytes("one"))
            #expect(created.status == 201)
            var item = try #require(try await device.aliveItems()["a.txt"])
            let first = try #require(item.current)
            #expect(created["ETag"] == "\"\(first.id)\"" && first.size == 3)
            #expect(first.note.deviceName == "Phone" && first.note.person == "anna")
            let names = try await hub.names(device)
            #expect(
                first.content
                    == names.content(
                        Manifest(chunks: [.init(id: .sha256(bytes("one")), length: 3)])))
            #expect(item.attributes["mode"]?.value == [1, 0xA4])
            let saved = try await client.send("PUT", base + "a.txt", bytes("two!"))
            #expect(saved.status == 204)
            item = try #require(try await device.aliveItems()["a.txt"])
            let second = try #require(item.current)
            #expect(second.parents == [first.id] && item.conflicts.isEmpty)
            #expect(saved["ETag"] == "\"\(second.id)\"")
            #expect(try await client.send("GET", base + "a.txt").bytes == bytes("two!"))
            let durability: DurabilityAnswer = try await Wire.post(
                device.path(.durability), RevisionList(revisions: [second.id]), token: device.token)
            #expect(durability.devices == [0], "a program does not count as having the contents")
        }
    }

    /// All lengths at which the way of cutting changes, and a format that is cut into blocks.
    @Test func aLongDocumentIsCutAsDevicesCutIt() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            var random = SeededRandom(named: "webdav")
            for size in [0, 1, 79, 256 << 10, (256 << 10) + 1, 3 << 20, 70 << 20] {
                var contents = (0..<size / 8).flatMap { _ in
                    withUnsafeBytes(of: random.next()) { Array($0) }
                }
                contents += [UInt8](repeating: 1, count: size - contents.count)
                if size == 3 << 20 {
                    contents.replaceSubrange(0..<16, with: bytes("SQLite format 3\0"))
                }
                #expect(try await client.status("PUT", base + "a", contents) / 100 == 2)
                let file = try Command.scratch(holding: Data(contents))
                let expected = try cutContent(
                    of: FileContent(descriptor: file.fileDescriptor), size: UInt64(size)
                ) { _, _ in }
                let current = try #require(try await device.aliveItems()["a"]?.current)
                let volume = device.volume.id
                let stored = try await hub.hub.ledger.read {
                    try $0.manifest(of: current.id, in: volume)
                }
                #expect(stored.flatMap { Manifest(encoded: $0)?.fileChunks } == expected, "\(size)")
                let answer = try await client.send("GET", base + "a")
                #expect(answer.bytes == contents, "\(size)")
            }
            try await hub.checkIsSound()
        }
    }

    @Test func conditionsProtectWhatOthersHaveSaved() async throws {
        try await RunningHub.with { hub in
            let client = try await hub.client()
            _ = try await hub.device()
            let path = base + "a"
            let first = try await client.send("PUT", path, bytes("1"), ["If-None-Match": "*"])
            #expect(first.status == 201)
            for headers in [
                ["If-None-Match": "*"], ["If-Match": "\"x\""], ["If-None-Match": first["ETag"]],
            ] {
                #expect(try await client.status("PUT", path, bytes("2"), headers) == 412)
                #expect(try await client.send("GET", path).bytes == bytes("1"))
            }
            #expect(
                try await client.status("PUT", base + "b", bytes("2"), ["If-Match": "*"]) == 412)
            let second = ["If-Match": first["ETag"]]
            #expect(try await client.status("PUT", path, bytes("2"), second) == 204)
            for method in ["DELETE", "PUT"] {
                #expect(try await client.status(method, path, bytes("3"), second) == 412)
            }
        }
    }

    /// A device saves while the body of a PUT arrives: both versions are kept.
    @Test func whatADeviceSavesMeanwhileIsInConflictAndNotLost() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("one")) == 201)
            let item = try #require(try await device.aliveItems()["a"])
            let first = try #require(item.current)
            let place = try await hub.place("/dav/Documents/a", client)
            try await device.upload([bytes("device")])
            let edit = device.revision(of: bytes("device"), parents: [first.id])
            try await device.commit([device.entry(item.id, .edit(edit), bytes: bytes("device"))])
            let volume = try #require(place.access?.volume)
            let changes = try await VolumeChanges(volume, place.session)
            let (late, content) = try await changes.copy(of: first, parents: [first.id], named: "a")
            let verdicts = try await changes.commit([.init(item.id, .edit(late), content)])
            #expect(verdicts == [.conflict])
            let live = try #require(try await device.aliveItems()["a"]).live.map(\.id)
            #expect(Set(live) == [edit.id, late.id])
            // A deletion by a program that has not seen the device's version keeps it.
            let refusal = await #expect(throws: Refusal.self) { try await changes.delete(item) }
            #expect(refusal?.status == 409)
            #expect(try await device.aliveItems()["a"] != nil)
        }
    }

    @Test func foldersAreMadeAndDeleted() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("MKCOL", base + "f/") == 201)
            #expect(try await client.status("MKCOL", base + "f") == 405)
            #expect(try await client.status("MKCOL", base + "x/y") == 409)
            #expect(try await client.status("MKCOL", base + "g", bytes("body")) == 415)
            #expect(try await client.status("PUT", base + "f", bytes("1")) == 405)
            #expect(try await client.status("PUT", base + "f/a", bytes("1")) == 201)
            #expect(try await client.status("MKCOL", base + "f/a/b") == 409)
            #expect(try await client.status("PUT", base + "x/a", bytes("1")) == 409)
            #expect(try await client.status("DELETE", base + "f", nil, ["Depth": "0"]) == 400)
            #expect(try await client.status("DELETE", base + "f") == 204)
            #expect(try await client.status("DELETE", base + "f") == 404)
            #expect(try await device.aliveItems().isEmpty)
            for path in ["/dav/", "/dav/Documents/", "/dav/Documents"] {
                #expect(try await client.status("DELETE", path) == 403)
                #expect(try await client.status("MKCOL", path) == 405)
            }
            #expect(try await client.status("MKCOL", "/dav/New") == 404)
            for name in [".versions", ".conflicts"] {
                #expect(try await client.status("MKCOL", base + name) == 400)
                #expect(try await client.status("PUT", base + name, bytes("1")) == 400)
            }
        }
    }

    @Test func documentsAndFoldersAreCopiedAndMoved() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            for folder in ["f", "f/g", "h"] {
                #expect(try await client.status("MKCOL", base + folder) == 201)
            }
            for number in 0..<150 {
                #expect(
                    try await client.status("PUT", base + "f/\(number)", bytes("\(number)")) == 201)
            }
            #expect(try await client.status("PUT", base + "f/g/deep", bytes("deep")) == 201)
            func to(_ name: String, _ more: [String: String] = [:]) -> [String: String] {
                ["Destination": hub.url + base + name].merging(more) { $1 }
            }
            #expect(try await client.status("COPY", base + "f/", nil, to("copy/")) == 201)
            #expect(try await client.list(base + "copy").addresses.count == 152)
            #expect(try await client.send("GET", base + "copy/g/deep").bytes == bytes("deep"))
            #expect(
                try await client.status("COPY", base + "f", nil, to("flat", ["Depth": "0"])) == 201)
            #expect(try await client.list(base + "flat").addresses.count == 1)
            #expect(try await client.status("MOVE", base + "copy", nil, to("h/moved")) == 201)
            #expect(try await client.send("GET", base + "h/moved/g/deep").bytes == bytes("deep"))
            #expect(try await client.status("GET", base + "copy/g/deep") == 404)
            #expect(
                try await client.status("MOVE", base + "flat", nil, to("h", ["Overwrite": "F"]))
                    == 412)
            #expect(try await client.status("MOVE", base + "flat", nil, to("h")) == 204)
            #expect(try await client.list(base + "h").addresses.count == 1)
            for (from, target) in [("f", "f/g/x"), ("f/g", "f"), ("f", "f"), ("f", "f/")] {
                for method in ["COPY", "MOVE"] {
                    let status = try await client.status(method, base + from, nil, to(target))
                    #expect(status == 403, "\(method) \(from) \(target)")
                }
            }
            #expect(try await client.status("COPY", base + "f/1", nil, to("x/y")) == 409)
            #expect(try await client.status("COPY", base + "f/1") == 400)
            let other = ["Destination": "http://elsewhere/dav/Documents/x"]
            #expect(try await client.status("COPY", base + "f/1", nil, other) == 502)
            #expect(try await client.status("COPY", base + "nothing", nil, to("x")) == 404)
            #expect(try await device.aliveItems()["deep"] != nil)
            try await hub.checkIsSound()
        }
    }

    /// So programs save: they write a temporary document and move it over the old one.
    @Test func aDocumentThatReplacesAnotherOneIsItsNextVersion() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("old")) == 201)
            let old = try #require(try await device.aliveItems()["a"])
            for method in ["MOVE", "COPY"] {
                #expect(try await client.status("PUT", base + "tmp", bytes(method)) == 201)
                let headers = ["Destination": base + "a"]
                #expect(try await client.status(method, base + "tmp", nil, headers) == 204)
                #expect(try await client.send("GET", base + "a").bytes == bytes(method))
                let now = try await device.aliveItems()
                #expect(now["a"]?.id == old.id && now["a"]?.conflicts.isEmpty == true)
                #expect((now["tmp"] == nil) == (method == "MOVE"))
            }
        }
    }

    /// As Word saves. Both names have what was put there, and the document keeps its history.
    @Test func aDocumentThatIsMovedAsideAndReplacedKeepsItsHistory() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let (client, other) = (try await hub.client(), try await hub.client(named: "Tablet"))
            func move(_ from: String, _ to: String, _ client: DAVClient) async throws {
                let headers = ["Destination": base + to]
                #expect(try await client.status("MOVE", base + from, nil, headers) == 201)
            }
            func begin() async throws -> ItemState {
                for (name, contents) in [("a", "old"), ("tmp", "new")] {
                    #expect(try await client.status("PUT", base + name, bytes(contents)) / 100 == 2)
                }
                return try #require(try await device.aliveItems()["a"])
            }
            var old = try await begin()
            try await move("a", "aside", client)
            try await move("tmp", "a", client)
            var now = try await device.aliveItems()
            #expect(now["a"]?.id == old.id && now["aside"]?.id != old.id && now["tmp"] == nil)
            #expect(now["a"]?.current?.parents == [old.current!.id])
            #expect(now.values.allSatisfy { $0.conflicts.isEmpty && !$0.isBounced })
            #expect(try await client.send("GET", base + "a").bytes == bytes("new"))
            #expect(try await client.send("GET", base + "aside").bytes == bytes("old"))
            #expect(try await client.status("DELETE", base + "aside") == 204)
            // Another program does not continue it, nor the same one after a while.
            for isLate in [false, true] {
                old = try await begin()
                try await move("a", "aside", client)
                if isLate { hub.advance(seconds: 61) }
                try await move("tmp", "a", isLate ? client : other)
                now = try await device.aliveItems()
                #expect(now["aside"]?.id == old.id && now["a"]?.id != old.id)
                #expect(try await client.send("GET", base + "a").bytes == bytes("new"))
                #expect(try await client.status("DELETE", base + "aside") == 204)
            }
            try await hub.checkIsSound()
        }
    }

    @Test func aReaderChangesNothing() async throws {
        try await RunningHub.with { hub in
            var owner = try await hub.device(of: "bert", volume: "Shared")
            let names = try await hub.names(owner)
            try await owner.make("a", contents: bytes("a"), by: names)
            let client = try await hub.client()
            let add = MemberRequest(.add, "anna", role: .reader)
            let _: MemberList = try await Wire.post(owner.path(.members), add, token: owner.token)
            let base = "/dav/bert@Shared/"
            #expect(try await client.status("GET", base + "a") == 200)
            let head = try await owner.changes().head
            let to = ["Destination": base + "b"]
            #expect(try await client.status("PUT", base + "a", bytes("b")) == 403)
            #expect(try await client.status("PUT", base + "b", bytes("b")) == 403)
            #expect(try await client.status("MKCOL", base + "c") == 403)
            #expect(try await client.status("DELETE", base + "a") == 403)
            for method in ["COPY", "MOVE"] {
                #expect(try await client.status(method, base + "a", nil, to) == 403)
            }
            #expect(
                try await client.status("PROPPATCH", base + "a", bytes(WebDAVPropertyTests.update))
                    == 403)
            #expect(try await owner.changes().head == head)
            let role = MemberRequest(.role, "anna", role: .editor)
            let _: MemberList = try await Wire.post(owner.path(.members), role, token: owner.token)
            #expect(try await client.status("PUT", base + "a", bytes("b")) == 204)
            let remove = MemberRequest(.remove, "anna")
            let _: MemberList = try await Wire.post(
                owner.path(.members), remove, token: owner.token)
            #expect(try await client.status("PUT", base + "a", bytes("c")) == 404)
        }
    }

    @Test func aPackageIsMovedWholeAndNeverChanged() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            _ = try await device.makePackage("p.rtfd", [("TXT.rtf", bytes("text"))], names)
            let link = try await device.make("link", .symlink, by: names, target: "x")
            let client = try await hub.client()
            let inside = base + "p.rtfd/TXT.rtf"
            func to(_ name: String) -> [String: String] { ["Destination": base + name] }
            #expect(try await client.status("PUT", inside, bytes("x")) == 403)
            #expect(try await client.status("PUT", base + "p.rtfd", bytes("x")) == 405)
            #expect(try await client.status("PUT", base + "p.rtfd/new", bytes("x")) == 409)
            #expect(try await client.status("MKCOL", base + "p.rtfd/new") == 409)
            #expect(try await client.status("DELETE", inside) == 403)
            #expect(try await client.status("MOVE", inside, nil, to("y")) == 403)
            #expect(try await client.status("COPY", inside, nil, to("y")) == 201)
            #expect(try await client.send("GET", base + "y").bytes == bytes("text"))
            #expect(try await client.status("COPY", base + "y", nil, to("p.rtfd/TXT.rtf")) == 403)
            #expect(try await client.status("COPY", base + "p.rtfd", nil, to("q.rtfd")) == 201)
            #expect(try await client.status("MOVE", base + "p.rtfd", nil, to("r.rtfd")) == 201)
            for name in ["q.rtfd", "r.rtfd"] {
                #expect(try await device.aliveItems()[name]?.kind == .package)
                #expect(
                    try await client.send("GET", base + name + "/TXT.rtf").bytes == bytes("text"))
            }
            for method in ["PUT", "MKCOL"] {
                #expect(try await client.status(method, base + "link") == 403, "\(method)")
            }
            #expect(try await client.status("MOVE", base + "y", nil, to("link")) == 403)
            #expect(try await client.status("DELETE", base + "link") == 404)
            #expect(try await device.aliveItems()["link"]?.id == link)
            let before = try #require(try await device.aliveItems()["q.rtfd"])
            #expect(try await client.status("MOVE", base + "r.rtfd", nil, to("q.rtfd")) == 204)
            let after = try #require(try await device.aliveItems()["q.rtfd"])
            #expect(after.id == before.id && after.current?.parents == [before.current!.id])
            #expect(try await client.status("DELETE", base + "q.rtfd") == 204)
        }
    }

    @Test func theQuotaIsAskedBeforeTheBody() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device(quota: 1 << 20)
            let client = try await hub.client()
            let large = [UInt8](repeating: 7, count: 2 << 20)
            let refused = try await client.send("PUT", base + "a", large)
            #expect(refused.status == 507 && refused.text.contains("quota-not-exceeded"))
            #expect(try await client.status("PUT", base + "b", bytes("small")) == 201)
            let space = try await client.list(
                base, depth: "0",
                "<propfind xmlns=\"DAV:\"><prop><quota-available-bytes/></prop></propfind>")
            let left = try #require(Int(space.values("quota-available-bytes")[0]))
            #expect((1_000_000..<1 << 20).contains(left))
            #expect(try await device.aliveItems()["a"] == nil)
        }
    }

    @Test func aBodyOfAnotherLengthChangesNothing() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            let range = ["Content-Range": "bytes 0-0/9"]
            let packed = ["Content-Encoding": "gzip"]
            #expect(try await client.status("PUT", base + "a", bytes("1"), packed) == 415)
            #expect(try await client.status("PUT", base + "a", bytes("1"), range) == 400)
            #expect(try await client.stream(base + "a", bytes("123"), [:]) == 411)
            for claimed in ["2", "4"] {
                let status = try await client.stream(
                    base + "a", bytes("123"), ["X-Expected-Entity-Length": claimed])
                #expect(status == 400)
            }
            #expect(try await device.aliveItems().isEmpty)
            let right = ["X-Expected-Entity-Length": "3"]
            #expect(try await client.stream(base + "a", bytes("123"), right) == 201)
        }
    }

    @Test func timesOfDocumentsAreKept() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            let time = ["X-OC-Mtime": "1000000000"]
            let answer = try await client.send("PUT", base + "a", bytes("1"), time)
            #expect(answer.status == 201 && answer["X-OC-Mtime"] == "accepted")
            let list = try await client.list(base + "a", depth: "0")
            #expect(list.values("getlastmodified") == ["Sun, 09 Sep 2001 01:46:40 GMT"])
            #expect(
                try await device.aliveItems()["a"]?.current?.note.modified
                    == 1_000_000_000_000_000_000)
            #expect(try await client.status("PUT", base + "a", bytes("2")) == 204)
            let later = try await client.list(base + "a", depth: "0")
            #expect(later.values("getlastmodified") != list.values("getlastmodified"))
            for bad in ["x", "-1", "1e30", "nan"] {
                let header = ["X-OC-Mtime": bad]
                #expect(try await client.status("PUT", base + "a", bytes("3"), header) == 400)
            }
        }
    }

    @Test func requestsOfOneDeviceAreCommittedInTurn() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.list("/dav/").status == 207)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<60 {
                    group.addTask {
                        try await client.status("PUT", base + "\(number)", bytes("\(number)"))
                    }
                }
                for try await status in group { #expect(status == 201) }
            }
            #expect(try await device.aliveItems().count == 60)
        }
    }

    @Test func keysOfNamesFoldCanonicallyEquivalentOnes() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "%C3%A9", bytes("1")) == 201)
            #expect(try await client.status("PUT", base + "e%CC%81", bytes("2")) == 204)
            #expect(try await device.aliveItems().count == 1)
            let headers = ["Destination": base + "e%CC%81"]
            #expect(try await client.status("MOVE", base + "%C3%A9", nil, headers) == 204)
            #expect(try await device.aliveItems().keys.map { Array($0.utf8).count } == [3])
        }
    }
}

extension RunningHub {
    func checkIsSound() async throws {
        let administration = try self.administration()
        #expect(try await administration.check().faults.isEmpty)
        try administration.close()
    }

    /// What a request of the program finds.
    func place(_ path: String, _ client: DAVClient) async throws -> Place {
        let caller = try await hub.devices.caller(
            user: client.user, password: client.password, from: "127.0.0.1")
        let head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: path)
        let request = Request(head: head, body: RequestBody(buffer: ByteBuffer()))
        let session = Session(hub, request, caller, VacatedNames())
        return try await Place(try Address(path: path), session)
    }
}

extension DAVClient {
    /// Sends a body whose length HTTP does not say, and returns the status.
    fileprivate func stream(
        _ path: String, _ body: [UInt8], _ more: [String: String]
    ) async throws -> Int {
        var request = HTTPClientRequest(url: url + path)
        request.method = .PUT
        let pair = Data("\(user):\(password)".utf8).base64EncodedString()
        request.headers.add(name: "Authorization", value: "Basic \(pair)")
        for (name, value) in more { request.headers.add(name: name, value: value) }
        let parts = AsyncStream<ByteBuffer> { stream in
            for byte in body { stream.yield(ByteBuffer(bytes: [byte])) }
            stream.finish()
        }
        request.body = .stream(parts, length: .unknown)
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        _ = try await response.body.collect(upTo: 1 << 20)
        return Int(response.status.code)
    }
}
