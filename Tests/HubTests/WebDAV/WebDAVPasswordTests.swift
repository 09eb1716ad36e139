import Foundation
import Hub
import HubProtocol
import Model
import Support
import Testing

@testable import HubWebDAV

/// The passwords of programs that use WebDAV.
struct WebDAVPasswordTests {
    @Test func aPasswordIsADeviceThatIsRevoked() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client(named: "Phone")
            #expect(try await client.list("/dav/").status == 207)
            let list: DeviceList = try await Wire.get(hub.url + Routes.devices, token: device.token)
            #expect(list.devices.map(\.name).contains("Phone"))
            let administration = try hub.administration()
            _ = try await administration.revoke("Phone")
            try administration.close()
            #expect(try await client.list("/dav/").status == 401)
        }
    }

    @Test func thePasswordIsReadAsPeopleTypeIt() async throws {
        try await RunningHub.with { hub in
            let client = try await hub.client()
            let typed = client.password.lowercased().replacing("-", with: " ")
            let other = DAVClient(url: hub.url, user: "anna", password: typed)
            #expect(try await other.list("/dav/").status == 207)
            let stranger = DAVClient(url: hub.url, user: "bert", password: client.password)
            #expect(try await stranger.list("/dav/").status == 401)
        }
    }

    /// None of the three kinds of secrets opens what another one opens.
    @Test func aPasswordIsNoTokenAndATokenNoPassword() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            let code = try await hub.code()
            var browser = Surfer(hub.url)
            for secret in [client.password, "cct_" + client.password, "ccd_" + client.password] {
                let reply = try await Wire.send(
                    hub.url + Routes.volumes, method: "GET", nil, token: secret)
                #expect(reply.status == 401)
                browser.cookies = ["concord-session": secret]
                #expect(try await browser.get("/web").status == 303)
                let basic = Data("anna:\(secret)".utf8).base64EncodedString()
                let other = try await Wire.send(
                    hub.url + Routes.volumes, method: "GET", nil, token: nil,
                    headers: ["Authorization": "Basic \(basic)"])
                #expect(other.status == 401)
            }
            let signIn = try await Surfer(hub.url).copy { try await $0.signIn(client.password) }
            #expect(signIn.status == 403)
            var session = try await hub.surfer()
            let cookie = try #require(session.cookies["concord-session"])
            #expect(try await session.get("/web").status == 200)
            for secret in [device.token, cookie, code] {
                let other = DAVClient(url: hub.url, user: "anna", password: secret)
                #expect(try await other.list("/dav/").status == 401)
            }
            let bearer = try await DAVClient(url: hub.url, user: "", password: "").send(
                "PROPFIND", "/dav/", nil,
                ["Authorization": "Bearer \(device.token)", "Depth": "0"])
            #expect(bearer.status == 401)
        }
    }

    @Test func withoutAPasswordNothingIsAnsweredButOptions() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let nobody = DAVClient(url: hub.url, user: "", password: "")
            for method in ["GET", "PROPFIND", "PUT", "LOCK", "DELETE", "MKCOL", "REPORT"] {
                let answer = try await nobody.send(method, "/dav/Documents/a", bytes("x"))
                #expect(answer.status == 401, "\(method)")
                #expect(answer["WWW-Authenticate"].hasPrefix("Basic realm="))
            }
            #expect(try await nobody.status("OPTIONS", "/dav/Documents/a") == 200)
            for header in ["Basic", "Basic !!", "Basic YQ==", "Basic //8=", "Basic YTpi YTpi"] {
                let status = try await nobody.status(
                    "GET", "/dav/", nil, ["Authorization": header])
                #expect(status == 401, "\(header)")
            }
        }
    }

    /// They are counted together with wrong codes, but no client of the same address that has a
    /// right password is refused for that.
    @Test func wrongPasswordsAreLimited() async throws {
        try await RunningHub.with { hub in
            let (client, later) = (try await hub.client(), try await hub.client(named: "Tablet"))
            #expect(try await client.list("/dav/").status == 207)
            let wrong = DAVClient(url: hub.url, user: "anna", password: "AAAAA-AAAAA")
            for _ in 0..<10 { #expect(try await wrong.list("/dav/").status == 401) }
            let refused = try await wrong.list("/dav/")
            #expect(refused.status == 429 && refused["Retry-After"] == "60")
            #expect(try await later.list("/dav/").status == 429)
            #expect(try await client.list("/dav/").status == 207)
            #expect(try await hub.guessCodes(forwardedFor: ["127.0.0.1"]) == [429])
            hub.advance(seconds: 61)
            #expect(try await later.list("/dav/").status == 207)
            for _ in 0..<30 { #expect(try await client.list("/dav/").status == 207) }
        }
    }

    @Test func aPasswordThatIsUsedDoesNotExpire() async throws {
        try await RunningHub.with { hub in
            let (client, other) = (try await hub.client(), try await hub.client(named: "old"))
            for _ in 0..<3 {
                hub.advance(seconds: 80 * 86_400)
                #expect(try await client.list("/dav/").status == 207)
            }
            #expect(try await other.list("/dav/").status == 401)
        }
    }
}

extension Surfer {
    fileprivate func copy<Value>(_ body: (inout Surfer) async throws -> Value) async rethrows
        -> Value
    {
        var other = self
        return try await body(&other)
    }
}
