import Foundation
import Hub
import HubPages
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// Addresses, forms and headers that no browser sends.
struct PageNoiseTests {
    /// The hub answers each with a page or a refusal, and goes on.
    @Test func noRequestIsAFault() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let item = Identifier.random()
            try await device.upload([bytes("one\n"), bytes("two\n")])
            let entry = device.creation("a.txt", bytes("one\n"), id: item)
            try await device.commit([entry, device.directory("folder")])
            let revision = try #require(entry.change.revision).id
            var browser = try await hub.surfer()
            let token = try await browser.get("/web").fields("token")[0]
            let position = "\(device.volume.epoch)-2"
            var random = SeededRandom(named: "pages")
            let parts = [
                "web", "v", "\(device.volume.id)", "\(item)", "\(Identifier.root)", "file",
                "preview", "compare", "restore", "undelete", "settle", "activity", "devices",
                "revoke", "rename", "move", "delete", "upload", "folder", "edit", "assets",
                "signin", "passkeys", "remove", "..", ".", "", "%00", "%2f", "\(revision)",
            ]
            let names = [
                "revision", "from", "to", "page", "deleted", "before", "entry", "done", "keep",
                "shown", "position", "code", "stay", "x",
                "signature", "credential", "client", "data", "key",
            ]
            let values = [
                "\(revision)", "\(item)", position, "1", "-1", "0", "9223372036854775807",
                "18446744073709551616", "after-", "after-ff", "settled", "%00", "a%0d%0ab", "",
                String(repeating: "9", count: 400), "\u{301}",
            ]
            func pick(_ all: [String]) -> String { all.randomElement(using: &random)! }
            func fields() -> [(String, String)] {
                (0..<Int.random(in: 0...4, using: &random)).map { _ in (pick(names), pick(values)) }
            }
            var statuses: [Int: Int] = [:]
            for _ in 0..<1500 {
                let known = "/web/v/\(device.volume.id)/\(item)/"
                let path =
                    Bool.random(using: &random)
                    ? known + pick(parts)
                    : "/web/"
                        + (0..<Int.random(in: 0...4, using: &random)).map { _ in
                            pick(parts)
                        }.joined(separator: "/")
                let query = fields().map { "\($0)=\(Surfer.encoded($1))" }
                let address = path + (query.isEmpty ? "" : "?") + query.joined(separator: "&")
                // An endless answer, and the end of this browser's session.
                if address.contains("events") || address.contains("signout") { continue }
                let ranges = [
                    "bytes=0-", "bytes=-", "bytes=18446744073709551615-", "x", "bytes=3-1",
                ]
                let page =
                    Int.random(in: 0..<3, using: &random) == 0
                    ? try await browser.post(address, fields() + [("token", token)])
                    : try await browser.get(address, ["Range": pick(ranges)])
                statuses[page.status, default: 0] += 1
                #expect(page.status < 500, "\(address)")
            }
            #expect(Set(statuses.keys).isSuperset(of: [200, 404, 405]))
            #expect(try await browser.get("/web").status == 200)
        }
    }
}
