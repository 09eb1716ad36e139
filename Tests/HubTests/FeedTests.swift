import AsyncHTTPClient
import Foundation
import Hub
import HubProtocol
import Model
import NIOCore
import Support
import Synchronization
import Testing

struct FeedTests {
    /// Reads the lines of a feed until `body` returns.
    func listen(
        _ device: TestDevice, as process: Identifier? = nil, _ body: (Lines) async throws -> Void
    ) async throws {
        var request = HTTPClientRequest(url: device.path(.feed))
        request.headers.add(name: "Authorization", value: "Bearer \(device.token)")
        if let process { request.headers.add(name: HubHeader.process, value: "\(process)") }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        #expect(response.status == .ok)
        let lines = Lines()
        let reading = Task {
            var held: [UInt8] = []
            do {
                for try await more in response.body {
                    held.append(contentsOf: more.readableBytesView)
                    while let end = held.firstIndex(of: 10) {
                        let line = Data(held[..<end])
                        held.removeFirst(end + 1)
                        lines.add(try JSONDecoder().decode(Hint.self, from: line))
                    }
                }
            } catch {}
            lines.add(nil)
        }
        defer { reading.cancel() }
        try await body(lines)
    }

    /// The hints in the order of their arrival; nil marks the end.
    final class Lines: Sendable {
        private let come = Mutex<[Hint?]>([])

        func add(_ hint: Hint?) { come.withLock { $0.append(hint) } }

        func next() async throws -> Hint? {
            for _ in 0..<10_000 {
                let next = come.withLock { $0.isEmpty ? nil : Optional($0.removeFirst()) }
                if let next { return next }
                try await Task.sleep(for: .milliseconds(2))
            }
            throw SupportError("the feed is silent")
        }

        func head(atLeast head: UInt64) async throws {
            try await skip(to: "the head \(head)") { $0.head.map { $0 >= head } ?? false }
        }

        /// Skips hints until one is found. Heartbeats go on for ever, so the time is limited.
        func skip(to what: String, _ isFound: (Hint) -> Bool) async throws {
            let end = ContinuousClock.now + .seconds(60)
            while ContinuousClock.now < end, let hint = try await next() {
                if isFound(hint) { return }
            }
            throw SupportError("the feed did not tell \(what)")
        }
    }

    /// The head that a feed says when it is opened was not announced, and commits that are told
    /// together count once.
    @Test func metricsSayHowLongFeedsTook() async throws {
        try await RunningHub.with { hub in
            var a = try await hub.device()
            let b = try await hub.device()
            try await a.commit([a.directory("before")])
            try await listen(b) { lines in
                try await lines.head(atLeast: 1)
                for index in UInt64(2)...4 {
                    try await a.commit([a.directory("\(index)")])
                    try await lines.head(atLeast: index)
                }
                // A hint is counted after it was written.
                let end = ContinuousClock.now + .seconds(60)
                while try await !metrics(of: hub).contains("_fan_out_seconds_count 3\n") {
                    try #require(ContinuousClock.now < end)
                    try await Task.sleep(for: .milliseconds(2))
                }
            }
        }
    }

    private func metrics(of hub: RunningHub) async throws -> String {
        let reply = try await Wire.send(hub.url + Routes.metrics, method: "GET", nil, token: nil)
        return String(decoding: try reply.checked(), as: UTF8.self)
    }

    @Test func hintsComeAtOnceAndAtEveryCommit() async throws {
        try await RunningHub.with { hub in
            var a = try await hub.device()
            let b = try await hub.device()
            try await a.commit([a.directory("before")])
            try await listen(b) { lines in
                #expect(try await lines.next()?.head == 1)
                for index in UInt64(2)...20 {
                    try await a.commit([a.directory("\(index)")])
                    try await lines.head(atLeast: index)
                }
            }
        }
    }

    @Test func aRevokedDeviceHearsNoMore() async throws {
        try await RunningHub.with { hub in
            let a = try await hub.device()
            let b = try await hub.device()
            try await listen(b) { lines in
                #expect(try await lines.next()?.head == 0)
                let reply = try await Wire.send(
                    hub.url + Routes.device(b.id), method: "DELETE", nil, token: a.token)
                #expect(reply.status == 200)
                #expect(try await lines.next()?.ended?.code == .unauthenticated)
                #expect(try await lines.next() == nil)
            }
            let list: DeviceList = try await Wire.get(hub.url + Routes.devices, token: a.token)
            #expect(list.devices.map(\.isRevoked) == [false, true])
            #expect(list.devices.map(\.isSelf) == [true, false])
            let out = try await failure { try await b.changes() }
            #expect(out.code == .unauthenticated)
        }
    }

    @Test func whatAnotherProcessDoesIsNoticed() async throws {
        try await RunningHub.with { hub in
            let a = try await hub.device()
            let b = try await hub.device()
            try await listen(a) { lines in
                #expect(try await lines.next()?.head == 0)
                _ = try await hub.administration().revoke(a.id.description)
                #expect(try await lines.next()?.ended?.code == .unauthenticated)
            }
            try await listen(b) { lines in
                #expect(try await lines.next()?.head == 0)
                _ = try await hub.administration().declareRestored()
                #expect(try await lines.next()?.ended?.code == .volumeEpoch)
            }
        }
    }

    @Test func aSignedOutDeviceIsOut() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            #expect(
                try await Wire.send(hub.url + Routes.signOut, nil, token: device.token).status
                    == 200)
            let out = try await failure { try await device.changes() }
            #expect(out.code == .unauthenticated)
        }
    }

    @Test func aStopEndsFeeds() async throws {
        let hub = try await RunningHub()
        let device = try await hub.device()
        try await listen(device) { lines in
            #expect(try await lines.next()?.head == 0)
            try await hub.stop()
            while try await lines.next() != nil {}
        }
    }

    @Test func pagesComeTogether() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let entries = (0..<50).map { device.directory("\($0)") }
            try await device.commit(entries)
            let gone = entries[7].item
            try await device.commit([device.entry(gone, .delete(current: nil))])
            var (names, after) = (Set<Identifier>(), UInt64(0))
            let first = try await device.changes()
            #expect(first.changes.count == 49)
            while true {
                let page = try await device.changes(
                    after: after, limit: 7, query: "&trashedAfter=\(first.head)")
                for case .item(let item) in page.changes {
                    #expect(item.life.isAlive)
                    names.insert(item.id)
                }
                after = page.next
                if after == page.head { break }
            }
            #expect(names.count == 49 && !names.contains(gone))
            let since = try await device.changes(after: 50)
            guard case .item(let item)? = since.changes.first else { return }
            #expect(item.id == gone && !item.life.isAlive)
        }
    }

    @Test func itIsKnownHowManyDevicesHaveAVersion() async throws {
        try await RunningHub.with { hub in
            var a = try await hub.device()
            let b = try await hub.device()
            try await a.upload([bytes("x")])
            let entry = a.creation("x", bytes("x"))
            try await a.commit([entry])
            let revision = try #require(entry.change.revision).id
            let list = RevisionList(revisions: [revision, .random()])
            func counts() async throws -> [Int?] {
                let answer: DurabilityAnswer = try await Wire.post(
                    a.path(.durability), list, token: a.token)
                return answer.devices
            }
            #expect(try await counts() == [1, nil])
            for _ in 0..<2 {
                let _: Done = try await Wire.post(b.path(.holding), list, token: b.token)
            }
            #expect(try await counts() == [2, nil])
            let body = [UInt8](try JSONEncoder().encode(list))
            let reply = try await Wire.send(
                b.path(.manifests), body, token: b.token, type: ContentType.json)
            var reader = FrameReader()
            reader.append(try reply.checked())
            let frame = try #require(try reader.nextManifest())
            #expect(frame.revision == revision)
            #expect(frame.bytes == TestDevice.manifest(of: bytes("x")))
            #expect(reader.isEmpty)
        }
    }
}
