import Foundation
import Hub
import HubPages
import HubProtocol
import Model
import Support
import Testing

/// The page of the hub's owner.
struct PageOwnerTests {
    @Test func onlyOwnersAdminister() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.surfer("anna")
            var bert = try await hub.surfer("bert")
            let administration = try hub.administration()
            let account = try await administration.account("bert").id
            let token = [("token", try await anna.get("/web").fields("token")[0])]
            for path in ["/web/hub/\(account)/quota", "/web/hub/\(account)/invite"] {
                #expect(try await anna.post(path, token).status == 404)
            }
            #expect(try await anna.get("/web/hub").status == 404)
            try await administration.setOwner("anna", true)
            #expect(try await anna.get("/web").text.contains("href=\"/web/hub\""))
            #expect(try await !bert.get("/web").text.contains("href=\"/web/hub\""))
            let page = try await anna.get("/web/hub")
            #expect(page.prose.contains("bert") && page.prose.contains("Free on the disk"))
            #expect(try await bert.get("/web/hub").status == 404)
            for path in ["/web/hub/\(account)/quota", "/web/hub/\(account)/invite"] {
                #expect(try await anna.post(path, []).status == 400)
                #expect(try await anna.get(path).status == 405)
            }
            let unknown = "/web/hub/\(Identifier.random())"
            #expect(try await anna.post(unknown + "/invite", token).status == 404)
            #expect(try await anna.post(unknown + "/quota", token).status == 404)
            try await administration.setOwner("anna", false)
            #expect(try await anna.get("/web/hub").status == 404, "at once")
        }
    }

    @Test func storageIsShownOverTime() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.surfer("anna")
            var device = try await hub.device()
            let administration = try hub.administration()
            try await administration.setOwner("anna", true)
            let plot = "/web/hub/storage.svg"
            let first = try await anna.get("/web/hub")
            #expect(first.prose.contains("not yet") && first.prose.contains("never"))
            #expect(!first.text.contains(plot) && first.status == 200)
            #expect(try await anna.get(plot).status == 404)
            for day in 0..<3 {
                try await device.save("\(day)", [UInt8](repeating: UInt8(day), count: 100_000))
                _ = try await hub.hub.collect(grace: 1)
                // The last of a day counts.
                _ = try await hub.hub.collect(grace: 1)
                if day < 2 { hub.advance(seconds: 86_400) }
            }
            let days = try await hub.hub.ledger.read { try StorageHistory($0).all() }
            #expect(days.count == 3 && days[2].number == days[0].number + 2)
            #expect(days[0].bytes < days[1].bytes && days[1].bytes < days[2].bytes)
            // The session has ended meanwhile.
            anna = try await hub.surfer("anna")
            let page = try await anna.get("/web/hub")
            #expect(page.text.contains("<img src=\"\(plot)\"") && !page.prose.contains("not yet"))
            let picture = try await anna.get(plot)
            #expect(picture["Content-Type"] == "image/svg+xml")
            let (text, ends) = (picture.text, ["<polyline points=\"2,", " 718,2\""])
            for end in ends { #expect(text.contains(end)) }
            var bert = try await hub.surfer("bert")
            #expect(try await bert.get(plot).status == 404)
            #expect(try await anna.get("/web/hub").prose.contains("never"))
            hub.advance(seconds: 366 * 86_400)
            _ = try await hub.hub.collect(grace: 1)
            #expect(try await hub.hub.ledger.read { try StorageHistory($0).all() }.count == 1)
        }
    }

    @Test func ownersSetQuotasAndMakeCodes() async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.surfer("anna")
            _ = try await hub.device(of: "bert")
            let administration = try hub.administration()
            try await administration.setOwner("anna", true)
            let account = try await administration.account("bert").id
            let token = ("token", try await anna.get("/web/hub").fields("token")[0])
            let form = "/web/hub/\(account)/quota"
            for (text, quota) in [("2", 2_000_000_000), ("0.5", 500_000_000), ("0", 0)] {
                let answer = try await anna.post(form, [token, ("gigabytes", text)])
                #expect(answer.status == 303)
                #expect(try await administration.account("bert").quota == UInt64(quota))
                #expect(try await anna.get("/web/hub").text.contains("value=\"\(text)\""))
            }
            for text in ["-1", "x", "nan", "inf", "1e300", "2GB"] {
                let answer = try await anna.post(form, [token, ("gigabytes", text)])
                #expect(answer.status == 400, "\(text)")
            }
            #expect(try await administration.account("bert").quota == 0)
            _ = try await anna.post(form, [token, ("gigabytes", "")])
            #expect(try await administration.account("bert").quota == nil)
            let page = try await anna.post("/web/hub/\(account)/invite", [token])
            #expect(page.status == 200 && page["Cache-Control"] == "no-store")
            let code = try #require(page.text.firstMatch(of: /<code class="code">([^<]*)</))
            var bert = Surfer(hub.url)
            #expect(try await bert.signIn(String(code.1)).status == 303)
            #expect(try await bert.get("/web").prose.contains("bert"))
        }
    }

    @Test func aNewAccountOfARemovedOwnersNameIsNoOwner() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.surfer("anna")
            let administration = try hub.administration()
            try await administration.setOwner("anna", true)
            let facts = "SELECT count(*) FROM facts WHERE name >= 'owner-' AND name < 'owner.'"
            func owners() async throws -> Int64? {
                try await hub.hub.ledger.read { try $0.row(facts, [])?.integer(0) }
            }
            #expect(try await owners() == 1)
            try await administration.removeAccount("anna", withVolumes: true)
            #expect(try await owners() == 0)
            var again = try await hub.surfer("anna")
            #expect(try await again.get("/web/hub").status == 404)
            let failed = await #expect(throws: VolumeError.self) {
                try await administration.setOwner("nobody", true)
            }
            #expect(failed?.code == .notFound)
        }
    }
}
