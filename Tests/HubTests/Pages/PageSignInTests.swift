import ChunkStore
import Foundation
import Hub
import HubProtocol
import Model
import Support
import Testing

@testable import HubPages

/// Who gets into the pages, and for how long.
struct PageSignInTests {
    @Test func aCodeOpensASessionOnce() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            browser.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
            let start = try await browser.get("/web")
            #expect(start.status == 303 && start["Location"] == "/web/signin")
            let code = try await hub.code()
            let answer = try await browser.signIn(code.lowercased())
            #expect(answer.status == 303 && answer["Location"] == "/web")
            let cookie = answer.all("Set-Cookie").first { $0.hasPrefix("concord-session=") } ?? ""
            #expect(cookie.contains("; HttpOnly; SameSite=Strict"))
            #expect(cookie.contains("; Path=/web;"))
            #expect(!cookie.contains("Max-Age") && !cookie.contains("Secure"))
            let volumes = try await browser.get("/web")
            #expect(volumes.status == 200 && volumes.prose.contains("anna"))
            let administration = try hub.administration()
            #expect(try await administration.devices().map(\.device.name) == ["Firefox on Linux"])
            var other = Surfer(hub.url)
            let again = try await other.signIn(code)
            #expect(again.status == 403 && again.prose.contains("used or expired"))
            #expect(other.cookies["concord-session"] == nil)
            #expect(try await other.get("/web").status == 303)
        }
    }

    @Test func aBrowserIsOneDeviceWhoeverSignsIn() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            for user in ["anna", "anna", "bert", "anna"] {
                #expect(try await browser.signIn(try await hub.code(user)).status == 303)
                #expect(try await browser.get("/web").prose.contains(user))
                browser.cookies["concord-session"] = nil
            }
            let users = try await hub.administration().devices().map(\.user)
            #expect(users == ["anna", "bert"], "a browser becomes another device for each account")
        }
    }

    @Test func sessionsEnd() async throws {
        try await RunningHub.with { hub in
            var short = try await hub.surfer()
            var long = Surfer(hub.url)
            let answer = try await long.signIn(try await hub.code(), stays: true)
            #expect(answer["Set-Cookie"].contains("Max-Age=2592000"))
            hub.advance(seconds: 13 * 3600)
            #expect(try await short.get("/web").status == 303)
            #expect(try await long.get("/web").status == 200)
            hub.advance(seconds: 30 * 86_400)
            #expect(try await long.get("/web").status == 303)
        }
    }

    @Test func signingOutAndRevokingEndASession() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let kept = browser.cookies
            let page = try await browser.get("/web")
            let out = try await browser.post(
                "/web/signout", [("token", page.fields("token")[0])])
            #expect(out.status == 303 && out["Set-Cookie"].contains("concord-session=; "))
            browser.cookies = kept
            #expect(try await browser.get("/web").status == 303, "the hub has forgotten it, too")
            var other = try await hub.surfer("bert")
            let administration = try hub.administration()
            let device = try await administration.devices().first { $0.user == "bert" }
            _ = try await administration.revoke(try #require(device).device.id.description)
            #expect(try await other.get("/web").status == 303)
            var third = try await hub.surfer("carl")
            try await administration.removeAccount("carl", withVolumes: true)
            #expect(try await third.get("/web").status == 303)
        }
    }

    @Test func guessesAreCountedWithThoseOfDevices() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            for _ in 0..<5 {
                #expect(try await browser.signIn("AAAAA-AAAAA-AAAAA-AAAAA").status == 403)
            }
            #expect(
                try await hub.guessCodes(forwardedFor: [
                    "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1",
                ]).last == 429)
            let right = try await browser.signIn(try await hub.code())
            #expect(right.status == 429 && right.prose.contains("wait a minute"))
            hub.advance(seconds: 61)
            #expect(try await browser.signIn(try await hub.code()).status == 303)
        }
    }

    @Test func formsOfOtherSitesAreRefused() async throws {
        try await RunningHub.with { hub in
            let code = try await hub.code()
            var browser = Surfer(hub.url)
            #expect(try await browser.post("/web/signin", [("code", code)]).status == 400)
            let form = try await browser.get("/web/signin")
            let token = form.fields("token")[0]
            for fields in [
                [("code", code)], [("code", code), ("token", "")],
                [("code", code), ("token", String(token.reversed()))],
                [("code", code), ("token", token), ("token", token)],
            ] { #expect(try await browser.post("/web/signin", fields).status == 400) }
            let good = [("code", code), ("token", token)]
            for site in ["cross-site", "same-site", "none"] {
                let answer = try await browser.post(
                    "/web/signin", good, ["Sec-Fetch-Site": site])
                #expect(answer.status == 400, "\(site)")
            }
            var other = Surfer(hub.url)
            _ = try await other.get("/web/signin")
            #expect(try await other.post("/web/signin", good).status == 400, "another browser's")
            #expect(try await browser.post("/web/signin", good).status == 303)
            #expect(try await browser.post("/web/signout", []).status == 400)
            #expect(try await browser.post("/web/signout", [("token", token)]).status == 400)
            #expect(try await browser.get("/web/signout").status == 405)
            #expect(try await browser.get("/web").status == 200, "still signed in")
        }
    }

    @Test func signingInLeadsToPagesOfTheHubOnly() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            let page = "/web/v/\(Identifier.random())"
            let asked = try await browser.get(page)
            #expect(asked["Location"] == "/web/signin?to=" + page.replacing("/", with: "%2F"))
            for (target, lands) in [
                (page, page), ("//evil.example/", "/web"), ("https://evil.example", "/web"),
                ("/web//evil.example", "/web"), ("/web/\\evil.example", "/web"),
                ("/web/v\r\nX: y", "/web"), ("/v1/devices", "/web"), ("javascript:1", "/web"),
            ] {
                var browser = Surfer(hub.url)
                let answer = try await browser.signIn(try await hub.code(), to: target)
                #expect(answer.status == 303 && answer["Location"] == lands, "\(target)")
            }
        }
    }

    @Test func aSessionIsNoDeviceAndADeviceNoSession() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let session = try #require(browser.cookies["concord-session"])
            let reply = try await Wire.send(
                hub.url + Routes.devices, method: "GET", nil, token: session)
            #expect(reply.status == 401)
            let split = SplitRequest(device: .random(), deviceName: "thief")
            let refused = try await failure {
                let _: EnrolAnswer = try await Wire.post(
                    hub.url + Routes.selfSplit, split, token: session)
            }
            #expect(refused.code == .unauthenticated)
            browser.cookies["concord-session"] = try await hub.device().token
            #expect(try await browser.get("/web").status == 303)
        }
    }

    /// A browser sends no strict cookies when a link of another site was followed.
    @Test func aLinkFromElsewhereIsLoadedAgain() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let headers = ["Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"]
            let kept = browser.cookies
            browser.cookies = [:]
            let first = try await browser.get("/web", headers)
            #expect(first.status == 200 && first["Refresh"] == "0" && first["Set-Cookie"].isEmpty)
            browser.cookies = kept
            #expect(try await browser.get("/web", headers)["Refresh"].isEmpty)
        }
    }

    @Test func cookiesBehindTLSAreSecure() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            browser.headers = ["X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"]
            let form = try await browser.get("/web/signin")
            #expect(form["Set-Cookie"].hasPrefix("__Secure-concord-browser="))
            #expect(form["Set-Cookie"].contains("; Secure"))
            #expect(!form.prose.contains("not encrypted"))
            let answer = try await browser.signIn(try await hub.code())
            #expect(answer["Set-Cookie"].hasPrefix("__Secure-concord-session="))
            #expect(try await browser.get("/web").status == 200)
        }
    }

    @Test func pagesCanBeSwitchedOff() async throws {
        let scratch = try TemporaryDirectory("hub")
        for (option, status) in [("off", 404), ("on", 303)] {
            let hub = try HubProcess(data: scratch.path + "/data", ["--pages", option])
            var browser = Surfer(hub.url)
            for path in ["/", "/web", "/web/v/1", "/web/signin"] where option == "off" {
                #expect(try await browser.get(path).status == 404, "\(path)")
            }
            #expect(try await browser.get("/web").status == status)
            #expect(try await browser.get("/healthz").status == 200)
            #expect(try hub.stop() == 0)
        }
    }

    /// A form's token is accepted only if all of it is right.
    @Test func aTextIsNoOtherSecret() {
        let secret = hexadecimal(Digest.sha256([1]).bytes)
        #expect(secret.isSecretly(secret))
        let others = (0..<10_000).map { number in
            hexadecimal(Digest.sha256(Array("\(number)".utf8)).bytes)
        }
        let changed = secret.indices.map { index in
            secret.replacingCharacters(
                in: index...index, with: secret[index] == "0" ? "f" : "0")
        }
        #expect((others + changed + ["", secret + "0"]).filter { $0.isSecretly(secret) } == [])
    }
}
