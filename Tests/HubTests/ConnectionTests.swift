import Foundation
import Glibc
import Hub
import HubProtocol
import Model
import Support
import Testing

/// Clients that send slowly, or open many connections, cost the hub little and do not block others
/// for long.
struct ConnectionTests {
    /// A connection that sends raw bytes.
    final class Line {
        private let connection: Int32

        init(_ url: String) throws {
            let port = UInt16(url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0)
            connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
            var place = sockaddr_in()
            place.sin_family = sa_family_t(AF_INET)
            place.sin_port = port.bigEndian
            place.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            let isUp = withUnsafePointer(to: &place) { place in
                place.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            guard isUp else { throw SupportError("the hub cannot be reached") }
        }

        deinit { close(connection) }

        func send(_ text: String) {
            let bytes = Array(text.utf8)
            send(bytes)
        }

        func send(_ bytes: [UInt8]) {
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return }
                sent += count
            }
        }

        /// Closes the sending side.
        func end() { shutdown(connection, Int32(SHUT_WR)) }

        /// Returns what arrives until the hub closes the connection, or until `end` has arrived.
        func rest(upTo end: Character? = nil) throws -> String {
            var (all, piece) = ([UInt8](), [UInt8](repeating: 0, count: 4096))
            while true {
                var poll = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
                guard Glibc.poll(&poll, 1, 30_000) == 1 else {
                    throw SupportError("the hub keeps the connection")
                }
                let count = read(connection, &piece, piece.count)
                guard count > 0 else { return String(decoding: all, as: UTF8.self) }
                all += piece[..<count]
                let text = String(decoding: all, as: UTF8.self)
                if let end, text.contains(end) { return text }
            }
        }
    }

    private static let head = "POST /v1/enrol HTTP/1.1\r\nHost: h\r\nContent-Type: application/json"

    @Test func whoSendsSlowlyIsCutOff() async throws {
        var limits = CallerLimits()
        limits.unauthenticatedSeconds = 1
        try await RunningHub.with(limits: limits) { hub in
            let device = try await hub.device()
            let lines = try (0..<5).map { _ in try Line(hub.url) }
            lines[1].send("POST /v1/en")
            lines[2].send(Self.head + "\r\nContent-Length: 100\r\n\r\n{")
            lines[3].send(Self.head + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
            lines[4].send(
                "POST /v1/volumes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n"
                    + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            for line in lines[..<4] { #expect(try line.rest() == "") }
            // The request is refused at once, without waiting for the rest of it.
            #expect(try lines[4].rest().contains("401"))
            // A client with a token has more time, and a feed stays open.
            #expect(try await device.changes().changes.count == 0)
        }
    }

    enum Sender: CaseIterable { case form, link, webDAV }

    /// A document may take longer than one of a device's requests, but not for ever.
    @Test(arguments: Sender.allCases)
    func aLongDocumentHasTimeForEachPartOfIt(_ sender: Sender) async throws {
        var limits = CallerLimits()
        limits.requestSeconds = 4
        limits.unauthenticatedSeconds = 1
        try await RunningHub.with(limits: limits) { hub in
            var device = try await hub.device()
            let document = [UInt8](repeating: 7, count: 3 * HubLimits.uploadBytes)
            let (head, body): (String, [UInt8])
            switch sender {
            case .link:
                try await device.save("a", bytes("old"))
                let item = try #require(try await device.aliveItems()["a"])
                let target = try await device.link(item.id, edits: true).address + "/upload"
                var visitor = Surfer(hub.url)
                let page = try await visitor.get(String(target.dropLast("/upload".count)))
                body = Surfer.multipart(try page.form(to: target), [("a", document)])
                head =
                    "POST \(target) HTTP/1.1\r\n"
                    + "Content-Type: \(Surfer.type.first!.value)\r\n"
            case .form:
                let (fields, cookie) = try await hub.form(of: device)
                body = Surfer.multipart(fields, [("a", document)])
                head =
                    "POST /web/v/\(device.volume.id)/\(Identifier.root)/upload HTTP/1.1\r\n"
                    + "Cookie: \(cookie)\r\nContent-Type: \(Surfer.type.first!.value)\r\n"
            case .webDAV:
                let client = try await hub.client()
                let pair = Data("anna:\(client.password)".utf8).base64EncodedString()
                body = document
                head = "PUT /dav/Documents/a HTTP/1.1\r\nAuthorization: Basic \(pair)\r\n"
            }
            let (long, stuck) = (try Line(hub.url), try Line(hub.url))
            for line in [long, stuck] {
                line.send(head + "Host: h\r\nContent-Length: \(body.count)\r\n\r\n")
            }
            stuck.send([UInt8](body[..<1]))
            for start in stride(from: 0, to: body.count, by: body.count / 3 + 1) {
                try await Task.sleep(for: .seconds(2))
                long.send(Array(body[start...].prefix(body.count / 3 + 1)))
            }
            #expect(try long.rest(upTo: "\r\n").contains(sender == .webDAV ? "201" : "303"))
            #expect(try stuck.rest() == "")
        }
    }

    /// A browser looks at the answer only after it has sent the whole form. A form that is too long
    /// for that is cut off.
    @Test func theRestOfARefusedFormIsReadUpToALimit() async throws {
        var limits = CallerLimits()
        limits.restBytes = 4 << 20
        try await RunningHub.with(limits: limits) { hub in
            let device = try await hub.device(quota: 1 << 20)
            let (fields, cookie) = try await hub.form(of: device)
            for (size, isRead) in [(3 << 20, true), (64 << 20, false)] {
                let file = [UInt8](repeating: 7, count: size)
                let body = Surfer.multipart(fields, [("a", file)])
                let line = try Line(hub.url)
                line.send(
                    "POST /web/v/\(device.volume.id)/\(Identifier.root)/upload HTTP/1.1\r\n"
                        + "Host: h\r\nCookie: \(cookie)\r\n"
                        + "Content-Type: \(Surfer.type.first!.value)\r\n"
                        + "Content-Length: \(body.count)\r\n\r\n")
                line.send(Array(body.prefix(10_000)))
                #expect(try line.rest(upTo: "\r\n").contains("507"))
                line.send(Array(body.dropFirst(10_000)))
                line.send("GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                #expect(try line.rest().contains("HTTP/1.1 200") == isRead, "\(size) bytes")
            }
        }
    }

    /// A broken connection is not a fault of the hub, so it must not be logged and counted as one.
    @Test func aBodyThatBreaksOffIsItsSendersFault() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            for (call, type) in [
                (VolumeCall.commit, ContentType.json), (.chunks, ContentType.binary),
                (.have, ContentType.binary),
            ] {
                let line = try Line(hub.url)
                line.send(
                    "POST \(device.path(call).dropFirst(hub.url.count)) HTTP/1.1\r\nHost: h\r\n"
                        + "Authorization: Bearer \(device.token)\r\nContent-Type: \(type)\r\n"
                        + "Content-Length: 100\r\n\r\n{")
                line.end()
                let said = try line.rest()
                #expect(said.contains("HTTP/1.1 400") && said.contains("too early"), "\(said)")
            }
        }
    }

    @Test func anAddressHasSoManyConnections() async throws {
        var limits = CallerLimits()
        limits.connectionsPerAddress = 6
        try await RunningHub.with(limits: limits) { hub in
            var lines: [Line] = []
            for _ in 0..<6 {
                let line = try Line(hub.url)
                line.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
                #expect(try line.rest(upTo: "}").contains("200"))
                lines.append(line)
            }
            for _ in 0..<14 { #expect(try Line(hub.url).rest() == "") }
            let asked = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            lines[0].send(asked)
            #expect(try lines[0].rest().contains("200"))
            // When a connection is closed, another one is accepted.
            lines.removeAll()
            try wait(seconds: 20, for: "room") { () -> Bool? in
                let line = try Line(hub.url)
                line.send(asked)
                return try line.rest().contains("200") ? true : nil
            }
        }
    }

    @Test func oneAccountHasSoMuchOnItsWay() async throws {
        var limits = CallerLimits()
        limits.bodyBytesPerAccount = 10_000
        try await RunningHub.with(limits: limits) { hub in
            let (one, other) = (try await hub.device(), try await hub.device(of: "berta"))
            let long = [UInt8](repeating: 0x20, count: 20_000) + bytes("{}")
            for device in [one, other] {
                let reply = try await Wire.send(
                    device.path(.durability), long, token: device.token, type: ContentType.json)
                #expect(reply.failure?.code == .busy)
            }
            // A part of a chunk of one mebibyte.
            let line = try Line(hub.url)
            line.send(
                "POST \(one.path(.chunks).dropFirst(hub.url.count)) HTTP/1.1\r\nHost: h\r\n"
                    + "Authorization: Bearer \(one.token)\r\n"
                    + "Content-Type: \(ContentType.binary)\r\nContent-Length: 1048613\r\n\r\n"
                    + "\0\u{10}\0\0" + String(repeating: "\0", count: 20_000))
            #expect(try line.rest(upTo: "}").contains("503"))
            // A part of a document arrives, and no whole chunk of it.
            let client = try await hub.client()
            let pair = Data("anna:\(client.password)".utf8).base64EncodedString()
            let document = try Line(hub.url)
            document.send(
                "PUT /dav/Documents/a HTTP/1.1\r\nHost: h\r\nAuthorization: Basic \(pair)\r\n"
                    + "Content-Length: 1048576\r\n\r\n")
            document.send([UInt8](repeating: 1, count: 20_000))
            #expect(try document.rest(upTo: "\n").contains("503"))
            // The memory of completed requests is available again.
            for _ in 0..<10 {
                let reply = try await Wire.send(
                    one.path(.durability), [UInt8](repeating: 0x20, count: 9000),
                    token: one.token, type: ContentType.json)
                #expect(reply.status == 400)
            }
        }
    }
}
