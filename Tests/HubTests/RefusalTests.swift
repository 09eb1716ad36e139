import AsyncHTTPClient
import Foundation
import Hub
import HubProtocol
import Model
import NIOCore
import Support
import Testing

/// Whatever is sent, the answer is a `Failure` with a status from 400 to 499 that says what is
/// wrong, and the data do not change.
struct RefusalTests {
    private func withDevice(_ body: (RunningHub, TestDevice) async throws -> Void) async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            try await body(hub, device)
            let report = try await hub.administration().check()
            #expect(report.faults == [])
            #expect(report.items == 0 && report.chunks == 0)
        }
    }

    private let volumeCalls: [(VolumeCall, String)] = VolumeCall.allCases.map {
        ($0, [.changes, .feed, .wanted].contains($0) ? "GET" : "POST")
    }

    @Test func withoutATokenThereIsNothing() async throws {
        try await withDevice { hub, device in
            var asked = volumeCalls.map { (device.path($0), $1) }
            asked += [
                (hub.url + Routes.devices, "GET"), (hub.url + Routes.volumes, "GET"),
                (hub.url + Routes.volumes, "POST"), (hub.url + Routes.signOut, "POST"),
                (hub.url + Routes.selfEpoch, "POST"), (hub.url + Routes.selfSplit, "POST"),
                (hub.url + Routes.selfToken, "POST"),
                (hub.url + Routes.device(device.id), "DELETE"),
            ]
            for (url, method) in asked {
                for token in [nil, "", "cct_00", device.token + "0"] {
                    let reply = try await Wire.send(url, method: method, nil, token: token)
                    #expect(reply.status == 401, "\(method) \(url)")
                    #expect(reply.failure?.code == .unauthenticated)
                }
            }
        }
    }

    @Test func anotherAccountsVolumeIsNotThere() async throws {
        try await withDevice { hub, device in
            var other = try await hub.device(of: "berta")
            other.volume = device.volume
            for (call, method) in volumeCalls {
                let type =
                    [.have, .chunks, .read].contains(call)
                    ? ContentType.binary : ContentType.json
                let reply = try await Wire.send(
                    other.path(call), method: method, method == "GET" ? nil : [],
                    token: other.token, type: type)
                #expect(reply.status == 404, "\(call) \(reply.status)")
            }
            let devices = try await Wire.send(
                hub.url + Routes.device(device.id), method: "DELETE", nil, token: other.token)
            #expect(devices.status == 404)
        }
    }

    @Test func pathsLeadNowhereElse() async throws {
        try await withDevice { hub, device in
            let volume = "/v1/volumes/\(device.volume.id)"
            for path in [
                "//", "/v1", "/v1/", "/v1/volumes/", "\(volume)", "\(volume)/", "\(volume)/x",
                "\(volume)/../../../etc/passwd", "/v1/volumes/../have", "/v1/volumes/%2e%2e/have",
                "/v1/volumes//have", "/v1/volumes/zz/have", "\(volume)/have/", "\(volume)//have",
                "/ledger.sqlite", "/../ledger.sqlite", "/blobs/00000001.pack", "/v1/devices/self",
                "/V1/volumes", "/v1/volumes\0", "/v1/volumes/\(device.volume.id)0/have",
            ] {
                let escaped = path.replacing("\0", with: "%00")
                let reply = try await Wire.send(
                    hub.url + escaped, method: "GET", nil, token: device.token)
                #expect(reply.status == 404, "\(path) \(reply.status)")
                #expect(reply.failure?.code == .notFound)
            }
        }
    }

    @Test func methodsAndTypesAreLookedAt() async throws {
        try await withDevice { hub, device in
            for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
                let reply = try await Wire.send(
                    device.path(.commit), method: method, nil, token: device.token)
                #expect(reply.status == 405)
                #expect(reply.values(of: "Allow") == ["POST"])
            }
            let calls: [VolumeCall] = [
                .commit, .have, .chunks, .read, .manifests, .holding, .leases, .grants,
            ]
            for call in calls {
                let reply = try await Wire.send(
                    device.path(call), [], token: device.token, type: "text/plain")
                #expect(reply.status == 415, "\(call)")
            }
        }
    }

    @Test func bodiesThatAreNoneAreRefused() async throws {
        try await withDevice { hub, device in
            let bad = [
                "", "{", "[]", "null", "{}", "\u{0}", "{\"device\": 5}", "{\"operations\": [{}]}",
                "{\"revisions\": [\"zz\"]}", "{\"revisions\": [1]}", "{\"name\": 5}",
                String(repeating: "[", count: 100_000),
            ]
            for call in [VolumeCall.commit, .manifests, .holding, .durability, .leases, .grants] {
                for body in bad {
                    let reply = try await Wire.send(
                        device.path(call), bytes(body), token: device.token, type: ContentType.json)
                    #expect(reply.status == 400, "\(call) \(body.prefix(40)) \(reply.status)")
                }
            }
            for route in [Routes.enrol, Routes.volumes, Routes.selfSplit] {
                for body in bad {
                    let reply = try await Wire.send(
                        hub.url + route, bytes(body), token: device.token, type: ContentType.json)
                    let isLong =
                        route == Routes.enrol && body.utf8.count > HubLimits.unauthenticatedBytes
                    #expect(
                        reply.status == (isLong ? 413 : 400),
                        "\(route) \(body.prefix(40)) \(reply.status)")
                }
            }
            for call in [VolumeCall.have, .read] {
                let reply = try await Wire.send(
                    device.path(call), [1, 2, 3], token: device.token)
                #expect(reply.status == 400)
            }
            for query in [
                "after=-1", "after=x", "after=", "limit=1e3", "after=1&after=2",
                "after=9223372036854775808", "trashedAfter=%20",
            ] {
                let reply = try await Wire.send(
                    device.path(.changes) + "?" + query, method: "GET", nil, token: device.token)
                #expect(reply.status == 400, "\(query)")
            }
            let epoch = try await Wire.send(
                device.path(.changes), method: "GET", nil, token: device.token,
                headers: [HubHeader.epoch: "x"])
            #expect(epoch.status == 400)
        }
    }

    @Test func moreThanTheLimitsIsRefused() async throws {
        try await withDevice { hub, device in
            let ids = [UInt8](repeating: 1, count: (HubLimits.ids + 1) * 32)
            for call in [VolumeCall.have, .read] {
                let reply = try await Wire.send(device.path(call), ids, token: device.token)
                #expect(reply.status == 413)
            }
            let long = [UInt8](repeating: 0x20, count: HubLimits.bodyBytes + 1)
            for route in [Routes.volumes, Routes.enrol] {
                let reply = try await Wire.send(
                    hub.url + route, long, token: device.token, type: ContentType.json)
                #expect(reply.status == 413)
            }
            #expect(
                try await Wire.send(
                    device.path(.commit), long, token: device.token, type: ContentType.json
                ).status == 413)
            var many = device
            let entries = (0...HubLimits.operations).map { many.directory("\($0)") }
            let tooMany = try await failure { [many] in try await many.commit(entries) }
            #expect(tooMany.code == .tooLarge)
            let frame = ChunkFrame(id: device.id(of: []), codec: .plain, bytes: [1])
            let frames = [ChunkFrame](repeating: frame, count: HubLimits.chunksPerUpload + 1)
            let chunks = try await failure { try await device.upload(frames) }
            #expect(chunks.code == .tooLarge)
            #expect(try await streamed(device, chunks: 40) == 413)
        }
    }

    /// Sends a body without announcing its length.
    private func streamed(_ device: TestDevice, chunks: Int) async throws -> UInt {
        var request = HTTPClientRequest(url: device.path(.chunks))
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(device.token)")
        request.headers.add(name: "Content-Type", value: ContentType.binary)
        // One frame that announces 16 MiB, followed by endless bytes.
        let head = ChunkFrame(id: device.id(of: []), codec: .plain, bytes: []).encoded
        var first = ByteBuffer(bytes: [0x01, 0, 0, 0] + head.dropFirst(4))
        first.writeRepeatingByte(0, count: 1000)
        let more = ByteBuffer(repeating: 0, count: 1 << 20)
        request.body = .stream(
            ([first] + [ByteBuffer](repeating: more, count: chunks)).async, length: .unknown)
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        return response.status.code
    }

    @Test func codesAreNotToBeGuessed() async throws {
        try await RunningHub.with { hub in
            var statuses: [Int] = []
            for index in 0..<12 {
                let request = EnrolRequest(
                    code: "AAAAA-AAAAA-AAAAA-\(10_000 + index)", deviceName: "d",
                    device: .random())
                statuses.append(
                    try await Wire.send(
                        hub.url + Routes.enrol, [UInt8](JSONEncoder().encode(request)),
                        token: nil, type: ContentType.json
                    ).status)
            }
            #expect(statuses.prefix(10).allSatisfy { $0 == 403 })
            #expect(statuses.suffix(2).allSatisfy { $0 == 429 })
            hub.advance(seconds: 61)
            _ = try await hub.device()
        }
    }

    @Test func aCodeWorksOnceAndForAWeek() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let code = try await hub.administration().invite("anna")
            _ = try await TestDevice(url: hub.url, code: code.lowercased(), volume: "Documents")
            let used = try await failure {
                try await TestDevice(url: hub.url, code: code, volume: "Documents")
            }
            #expect(used.code == .code)
            let late = try await hub.administration().invite("anna")
            hub.advance(seconds: 8 * 86_400)
            let expired = try await failure {
                try await TestDevice(url: hub.url, code: late, volume: "Documents")
            }
            #expect(expired.code == .code)
        }
    }
}

extension Array where Element: Sendable {
    fileprivate var async: AsyncStream<Element> {
        AsyncStream { stream in
            for element in self { stream.yield(element) }
            stream.finish()
        }
    }
}
