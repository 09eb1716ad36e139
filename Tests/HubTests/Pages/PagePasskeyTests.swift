import Foundation
import Support
import Testing

@testable import Hub

/// Signing in with a passkey, and what is refused.
struct PagePasskeyTests {
    private static let devices = "/web/devices"

    private static func challenge(_ page: Surfer.Page) throws -> String {
        let mark = "data-challenge=\""
        let parts = page.text.components(separatedBy: mark)
        return String(try #require(parts.dropFirst().first).prefix { $0 != "\"" })
    }

    private static func add(_ authenticator: TestAuthenticator, in browser: inout Surfer)
        async throws -> Surfer.Page
    {
        let page = try await browser.get(devices)
        let fields = authenticator.make(try challenge(page))
        return try await browser.post(
            "/web/passkeys", [("token", page.fields("token")[0])] + fields)
    }

    private static func signIn(
        _ authenticator: TestAuthenticator, in browser: inout Surfer,
        changing change: ([(String, String)]) -> [(String, String)] = { $0 }
    ) async throws -> Surfer.Page {
        let page = try await browser.get("/web/signin")
        let fields = change(authenticator.use(try challenge(page)))
        return try await browser.post(
            "/web/signin", [("token", page.fields("token")[0]), ("to", "")] + fields)
    }

    @Test func itOpensSessionsUntilItIsRemoved() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let authenticator = TestAuthenticator(at: hub.url)
            let added = try await Self.add(authenticator, in: &browser)
            #expect(added.status == 303 && added["Location"] == "/web/devices?done=passkey")
            #expect(try await browser.get(Self.devices).prose.contains("never"))
            let again = try await Self.add(authenticator, in: &browser)
            #expect(again.status == 409, "one key is one passkey")
            for _ in 0..<2 {
                hub.advance(seconds: 1)
                var other = Surfer(hub.url)
                #expect(try await Self.signIn(authenticator, in: &other).status == 303)
                #expect(try await other.get("/web").prose.contains("anna"))
            }
            let page = try await browser.get(Self.devices)
            #expect(!page.prose.contains("never"))
            let removal = try #require(page.text.firstMatch(of: /\/web\/passkeys\/\w+\/remove/))
            var stranger = try await hub.surfer("bert")
            let token = try await stranger.get(Self.devices).fields("token")[0]
            let taken = try await stranger.post(String(removal.0), [("token", token)])
            #expect(taken.status == 404, "it is not the stranger's")
            let removed = try await browser.post(
                String(removal.0), [("token", page.fields("token")[0])])
            #expect(removed.status == 303)
            hub.advance(seconds: 1)
            var last = Surfer(hub.url)
            let refused = try await Self.signIn(authenticator, in: &last)
            #expect(refused.status == 403 && refused.prose.contains("have been removed"))
            #expect(last.cookies["concord-session"] == nil)
        }
    }

    @Test func anAnswerIsValidOnceAndInOneBrowser() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let authenticator = TestAuthenticator(at: hub.url)
            _ = try await Self.add(authenticator, in: &browser)
            hub.advance(seconds: 1)
            var other = Surfer(hub.url)
            let page = try await other.get("/web/signin")
            let start = [("token", page.fields("token")[0]), ("to", "")]
            let fields = authenticator.use(try Self.challenge(page))
            #expect(try await other.post("/web/signin", start + fields).status == 303)
            other.cookies["concord-session"] = nil
            let again = try await other.post("/web/signin", start + fields)
            #expect(again.status == 403 && again.prose.contains("since this page was loaded"))
            var thief = Surfer(hub.url)
            hub.advance(seconds: 1)
            let fresh = authenticator.use(try Self.challenge(try await other.get("/web/signin")))
            let stolen = try await Self.signIn(authenticator, in: &thief) { _ in fresh }
            #expect(stolen.status == 403, "the challenge was made for another browser")
            let late = try await other.get("/web/signin")
            hub.advance(seconds: 1000)
            let answer = authenticator.use(try Self.challenge(late))
            let refused = try await other.post(
                "/web/signin", [("token", late.fields("token")[0]), ("to", "")] + answer)
            #expect(refused.status == 403 && refused.prose.contains("open for too long"))
            // A challenge for adding a passkey is none for signing in.
            let adding = authenticator.use(
                try Self.challenge(try await browser.get(Self.devices)))
            #expect(try await Self.signIn(authenticator, in: &other) { _ in adding }.status == 403)
        }
    }

    private static let faults: [(name: String, change: @Sendable (TestAuthenticator) -> Void)] = [
        ("another site", { $0.origin = "https://evil.example" }),
        ("another port", { $0.origin += "0" }),
        ("another host", { $0.host = "evil.example" }),
        ("nobody was there", { $0.flags = 0b100 }),
        ("nobody was verified", { $0.flags = 0b001 }),
        ("another deed", { $0.type = "payment.get" }),
        ("another credential", { $0.credential[0] ^= 1 }),
    ]

    @Test(arguments: 0..<faults.count) func whatIsWrongIsRefused(_ index: Int) async throws {
        let (name, change) = Self.faults[index]
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            if name != "another credential" {
                let wrong = TestAuthenticator(at: hub.url)
                change(wrong)
                #expect(try await Self.add(wrong, in: &browser).status == 403, "\(name)")
            }
            let authenticator = TestAuthenticator(at: hub.url)
            #expect(try await Self.add(authenticator, in: &browser).status == 303)
            hub.advance(seconds: 1)
            change(authenticator)
            var other = Surfer(hub.url)
            #expect(try await Self.signIn(authenticator, in: &other).status == 403, "\(name)")
            #expect(other.cookies["concord-session"] == nil)
        }
    }

    @Test func signaturesAreChecked() async throws {
        try await RunningHub.with { hub in
            var browser = try await hub.surfer()
            let authenticator = TestAuthenticator(at: hub.url)
            authenticator.signatures = 7
            _ = try await Self.add(authenticator, in: &browser)
            hub.advance(seconds: 1)
            var other = Surfer(hub.url)
            let forger = TestAuthenticator(at: hub.url)
            #expect(try await Self.signIn(forger, in: &other).status == 403, "another key")
            for field in ["signature", "data", "client"] {
                let answer = try await Self.signIn(authenticator, in: &other) { fields in
                    fields.map { name, value in
                        guard name == field else { return (name, value) }
                        var bytes = [UInt8](base64url: value)!
                        bytes[bytes.count / 2] ^= 4
                        return (name, bytes.base64url)
                    }
                }
                #expect(answer.status == 403, "a changed \(field)")
            }
            for text in ["", "*", "AAAA", "A", String(repeating: "A", count: 60_000)] {
                for field in ["signature", "data", "client", "credential"] {
                    hub.advance(seconds: 61)
                    let answer = try await Self.signIn(authenticator, in: &other) { fields in
                        fields.map { $0.0 == field ? ($0.0, text) : $0 }
                    }
                    #expect([400, 403, 413].contains(answer.status), "\(field) \(text.count)")
                }
            }
            hub.advance(seconds: 61)
            #expect(try await Self.signIn(authenticator, in: &other).status == 303)
            other.cookies["concord-session"] = nil
            hub.advance(seconds: 1)
            authenticator.signatures = 3
            let refused = try await Self.signIn(authenticator, in: &other)
            #expect(refused.status == 403 && refused.prose.contains("has been copied"))
        }
    }

    @Test func wrongPasskeysAreCounted() async throws {
        try await RunningHub.with { hub in
            var browser = Surfer(hub.url)
            let authenticator = TestAuthenticator(at: hub.url)
            var statuses: [Int] = []
            for _ in 0..<11 {
                statuses.append(try await Self.signIn(authenticator, in: &browser).status)
            }
            #expect(statuses == Array(repeating: 403, count: 10) + [429])
        }
    }

    /// Whoever steals a session could add a passkey to stay.
    @Test func revokingABrowserEndsWhatItAdded() async throws {
        try await RunningHub.with { hub in
            var (owner, thief) = (try await hub.surfer(), try await hub.surfer())
            let stolen = TestAuthenticator(at: hub.url)
            #expect(try await Self.add(stolen, in: &thief).status == 303)
            hub.advance(seconds: 1)
            var second = Surfer(hub.url)
            #expect(try await Self.signIn(stolen, in: &second).status == 303)
            // The two browsers sign in with a passkey of each other.
            let another = TestAuthenticator(at: hub.url)
            another.credential.append(1)
            #expect(try await Self.add(another, in: &second).status == 303)
            hub.advance(seconds: 1)
            thief.cookies["concord-session"] = nil
            #expect(try await Self.signIn(another, in: &thief).status == 303)
            let page = try await owner.get(Self.devices)
            let mine = try await hub.administration().devices().map(\.device)
            #expect(mine.count == 3)
            let addresses = page.text.matches(of: /\/web\/devices\/\w+\/revoke/).map { $0.0 }
            let own = page.text.components(separatedBy: "<tr>").dropFirst(2)
                .first { $0.contains("this browser") }?
                .firstMatch(of: /\/web\/devices\/\w+\/revoke/)?.0
            let other = try #require(addresses.first { $0 != own })
            let revoked = try await owner.post(
                String(other), [("token", page.fields("token")[0])])
            #expect(revoked.status == 303)
            #expect(try await owner.get("/web").status == 200)
            #expect(try await thief.get("/web").status == 303)
            #expect(try await second.get("/web").status == 303)
            hub.advance(seconds: 1)
            var last = Surfer(hub.url)
            for passkey in [stolen, another] {
                #expect(try await Self.signIn(passkey, in: &last).status == 403)
            }
            #expect(!(try await owner.get(Self.devices).prose.contains("never")))
        }
    }

    /// Keys of kinds that browsers do not make, and what is no key.
    @Test func onlyKnownKindsOfKeysAreTaken() throws {
        func key(_ options: String...) throws -> [UInt8] {
            let scratch = try TemporaryDirectory("key")
            try Command(
                "sh", "-c",
                """
                openssl genpkey \(options.joined(separator: " ")) 2>/dev/null |
                openssl pkey -pubout -outform DER >'\(scratch.path)/key'
                """
            ).succeed()
            return Array(try Data(contentsOf: URL(filePath: "\(scratch.path)/key")))
        }
        func isTaken(_ key: [UInt8]) -> Bool { PublicKey(key) != nil }
        let curve = "-pkeyopt ec_paramgen_curve:"
        let good = [
            try key("-algorithm ED25519"), try key("-algorithm EC", curve + "P-256"),
            try key("-algorithm RSA", "-pkeyopt rsa_keygen_bits:2048"),
        ]
        for key in good {
            #expect(isTaken(key))
            #expect(!isTaken(key + [0]))
            #expect(!isTaken(Array(key.dropLast())))
        }
        let bad = [
            try key("-algorithm EC", curve + "secp256k1"),
            try key("-algorithm EC", curve + "P-384"),
            try key("-algorithm RSA", "-pkeyopt rsa_keygen_bits:1024"),
            try key("-algorithm X25519"), try key("-algorithm ED448"), [], [0x30],
            [UInt8](repeating: 0x30, count: 5000),
        ]
        for key in bad { #expect(!isTaken(key)) }
    }
}
