import Foundation
import Hub
import HubPages
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// Contents that leave the hub by a page.
struct PageDownloadTests {
    private func saved(
        _ name: String, _ contents: [UInt8], _ device: inout TestDevice
    ) async throws -> String {
        let id = Identifier.random()
        try await device.upload([contents])
        try await device.commit([device.creation(name, contents, id: id)])
        return "/web/v/\(device.volume.id)/\(id)"
    }

    @Test func aHostileDocumentHasNoRights() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            var browser = try await hub.surfer()
            let page = bytes("<script>fetch('/web')</script>")
            for name in ["a.html", "a.svg", "a.xhtml", "a.js", "a", "a.unknown", "a.pdf", "a.png"] {
                let address = try await saved(name, page, &device)
                for view in ["file", "preview"] {
                    let answer = try await browser.get("\(address)/\(view)")
                    #expect(answer.status == 200 && answer.bytes == page)
                    #expect(answer["X-Content-Type-Options"] == "nosniff")
                    #expect(!answer["Content-Type"].contains("html"), "\(name)")
                    #expect(!answer["Content-Type"].contains("javascript"), "\(name)")
                    #expect(answer["Cross-Origin-Resource-Policy"] == "same-origin")
                    let policy = answer["Content-Security-Policy"]
                    #expect(policy.contains("default-src 'none'"))
                    let isViewer = name == "a.pdf" && view == "preview"
                    #expect(policy.contains("sandbox") != isViewer, "\(name)")
                    let isShown =
                        view == "preview"
                        && ["a.html", "a.xhtml", "a.js", "a.svg", "a.pdf", "a.png"].contains(name)
                    #expect(
                        answer["Content-Disposition"].hasPrefix(isShown ? "inline" : "attachment"),
                        "\(name)")
                }
                let shown = try await browser.get(address)
                #expect(!shown.text.contains("<script>"), "\(name)")
            }
        }
    }

    @Test func rangesAreSent() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let parts = (0..<3).map { part in (0..<1000).map { UInt8(($0 + part * 7) & 255) } }
            let all = parts.flatMap(\.self)
            try await device.upload(parts)
            let id = Identifier.random()
            let revision = Revision(
                id: .random(), parents: [], content: device.id(of: all), size: 3000,
                moment: Moment(time: 1, device: device.id))
            var entry = device.entry(
                id,
                .create(
                    Creation(
                        kind: .file, placement: device.placement("clip.mp4"), revision: revision)))
            let manifest = Manifest(
                chunks: parts.map { ChunkReference(id: .sha256($0), length: 1000) })
            entry.content = RevisionContent(
                manifest: manifest.encoded, chunks: parts.map { device.id(of: $0) })
            try await device.commit([entry])
            var browser = try await hub.surfer()
            let address = "/web/v/\(device.volume.id)/\(id)/file"
            let whole = try await browser.get(address)
            #expect(whole.bytes == all && whole["Content-Type"] == "video/mp4")
            for (range, part) in [
                ("bytes=0-0", 0..<1), ("bytes=999-1000", 999..<1001), ("bytes=2500-", 2500..<3000),
                ("bytes=-1", 2999..<3000), ("bytes=100-99999", 100..<3000),
                ("bytes=-9999", 0..<3000),
                ("bytes=0-18446744073709551615", 0..<3000),
            ] {
                let answer = try await browser.get(address, ["Range": range])
                #expect(answer.status == 206 && answer.bytes == Array(all[part]), "\(range)")
                #expect(
                    answer["Content-Range"]
                        == "bytes \(part.lowerBound)-\(part.upperBound - 1)/3000")
            }
            for range in ["bytes=3000-", "bytes=-0", "bytes=5-4"] {
                let answer = try await browser.get(address, ["Range": range])
                #expect(
                    answer.status == 416 && answer["Content-Range"] == "bytes */3000", "\(range)")
            }
            for range in ["bytes=0-1,5-6", "lines=0-1", "bytes=", "bytes=a-b", "bytes=--1"] {
                #expect(try await browser.get(address, ["Range": range]).status == 200, "\(range)")
            }
        }
    }

    /// A few bytes of a manifest can stand for millions of chunks, which take memory in a list.
    @Test func documentsWithTooManyChunksAreRefused() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let chunk = [UInt8](repeating: 7, count: 10)
            try await device.upload([chunk])
            let count = 1_500_000
            let manifest = Manifest(
                chunks: [ChunkReference](
                    repeating: ChunkReference(id: .sha256(chunk), length: 10), count: count))
            let revision = Revision(
                id: .random(), parents: [], content: device.id(of: chunk), size: UInt64(10 * count),
                moment: Moment(time: 1, device: device.id))
            let id = Identifier.random()
            var entry = device.entry(
                id,
                .create(
                    Creation(
                        kind: .file, placement: device.placement("large"), revision: revision)))
            entry.content = RevisionContent(
                manifest: manifest.encoded, chunks: [device.id(of: chunk)])
            let result = try await device.commit([entry]).results[0]
            #expect(result.verdict == .applied)
            var browser = try await hub.surfer()
            let address = "/web/v/\(device.volume.id)/\(id)"
            #expect(try await browser.get(address + "/file").status == 503)
            let page = try await browser.get(address)
            #expect(page.status == 200 && page.prose.contains("too large for the hub's pages"))
            let other = try await saved("small", bytes("small"), &device)
            #expect(try await browser.get(other + "/file").status == 200, "nothing stays counted")
        }
    }

    /// The names of a package's files take memory, too: the page shows the first of them.
    @Test(arguments: [1 << 20, 300 << 10])
    func theFilesOfALargePackageCountInTheBudget(budget: Int) async throws {
        var limits = CallerLimits()
        limits.bodyBytesPerAccount = budget
        let isEnough = budget == 1 << 20
        try await RunningHub.with(limits: limits) { hub in
            var device = try await hub.device()
            let names = try await hub.names(device)
            let chunk = bytes("contents")
            try await device.upload([chunk])
            let manifest = Manifest(
                entries: (10_000..<20_000).map { number in
                    Manifest.Entry(
                        path: bytes("file \(number)"), size: 8,
                        chunks: [ChunkReference(id: .sha256(chunk), length: 8)])
                })
            #expect(manifest.encoded.count < 600 << 10)
            let item = Identifier.random()
            let revision = Revision(
                id: .random(), parents: [], content: names.content(manifest), size: manifest.size,
                moment: Moment(time: 1, device: device.id))
            var entry = device.entry(
                item,
                .create(
                    Creation(
                        kind: .package,
                        placement: names.placement("p.rtfd", in: .root, device: "d", at: 1),
                        revision: revision)))
            entry.content = RevisionContent(
                manifest: manifest.encoded, chunks: [device.id(of: chunk)])
            // Decoded from text as a device sends it, this does not fit so small a budget.
            let volume = device.volume.id
            let caller = try await hub.hub.devices.caller(token: device.token)
            let answer = try await hub.hub.commit(device.request([entry]), to: volume, for: caller)
            #expect(answer.results[0].verdict == .applied)
            var browser = try await hub.surfer()
            let address = "/web/v/\(volume)/\(item)"
            for _ in 0..<3 {
                let page = try await browser.get(address)
                #expect(page.status == (isEnough ? 200 : 503))
                #expect(page.prose.contains("9000 more files") == isEnough)
                let file = try await browser.get(address + "/file?entry=9999")
                #expect(file.status == (isEnough ? 200 : 503))
                #expect((file.bytes == chunk) == isEnough)
            }
            #expect(
                try await browser.get(address + "/file?entry=-1").status / 100 == (isEnough ? 4 : 5)
            )
            let client = try await hub.client()
            let path = "/dav/Documents/p.rtfd/file%2019999"
            #expect(try await client.status("GET", path) == (isEnough ? 200 : 503))
        }
    }

    @Test func contentsThatTheHubLacksAreNotSentShort() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let contents = [UInt8](repeating: 7, count: 5000)
            let address = try await saved("a.txt", contents, &device)
            let packs = try FileManager.default.subpathsOfDirectory(atPath: hub.directory.path)
                .filter { $0.hasPrefix("blobs/") }
            for pack in packs where pack.contains("pack") {
                let path = hub.directory.path + "/" + pack
                guard let file = FileHandle(forUpdatingAtPath: path) else { continue }
                try file.truncate(atOffset: 0)
                try file.close()
            }
            var browser = try await hub.surfer()
            let page = try await browser.get(address)
            #expect(page.status == 200 && page.prose.contains("does not have all"))
            await #expect(throws: (any Error).self) {
                _ = try await browser.get(address + "/file")
            }
        }
    }
}
