import HubProtocol
import Testing

@testable import HubWebDAV

/// The header `If`.
struct IfHeaderTests {
    private func token(_ uri: String, not: Bool = false) -> IfHeader.Condition {
        IfHeader.Condition(isNegated: not, subject: .token(uri))
    }

    private func tag(_ text: String, not: Bool = false) -> IfHeader.Condition {
        IfHeader.Condition(isNegated: not, subject: .tag(text))
    }

    @Test func listsAreRead() throws {
        let plain = try IfHeader("(<urn:a> [\"I am ]an ETag\"]) ( Not <DAV:no-lock> not[W/\"e\"] )")
        #expect(
            plain.lists == [
                .init(resource: nil, conditions: [token("urn:a"), tag("\"I am ]an ETag\"")]),
                .init(
                    resource: nil,
                    conditions: [token("DAV:no-lock", not: true), tag("W/\"e\"", not: true)]),
            ])
        #expect(plain.tokens == ["urn:a", "DAV:no-lock"])
        let tagged = try IfHeader("  <http://h/dav/a> (<urn:a>)(<urn:b>)</dav/b>\t([\"x\"])  ")
        #expect(tagged.lists.map(\.resource) == ["http://h/dav/a", "http://h/dav/a", "/dav/b"])
        #expect(
            tagged.lists.map(\.conditions) == [[token("urn:a")], [token("urn:b")], [tag("\"x\"")]])
    }

    @Test(arguments: [
        "", " ", "urn:a", "<urn:a>", "()", "(", "(<urn:a>", "(<urn:a)", "(<>)", "(urn:a)", "([x])",
        "([\"x\"", "([\"x)", "(Not)", "(Not Not <urn:a>)", "(<urn:a>) x",
        "(<urn:a>) <urn:r> (<urn:b>)",
        "<urn:r> <urn:s> (<urn:b>)", "<urn:r>", "(<urn:a>),(<urn:b>)", "(<a b>)", "([W/x])",
        String(repeating: "(<urn:a>)", count: 65),
        "(" + String(repeating: "<urn:a>", count: 65) + ")",
    ])
    func whatIsNoHeaderIsRefused(_ text: String) {
        #expect(throws: Failure.self) { _ = try IfHeader(text) }
    }

    @Test func tokensOfLocksAreUUIDs() throws {
        let token = Lock.newToken()
        let lock = Lock(
            token: token, item: .root, account: .root, device: .root, isExclusive: true,
            isDeep: false, expires: 0, root: [], owner: "")
        #expect(
            lock.uri.wholeMatch(
                of: /urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/)
                != nil)
        #expect(Lock.token(lock.uri) == token && Lock.token(lock.uri.uppercased()) == token)
        for other in [
            "", "DAV:no-lock", "urn:uuid:", lock.uri + "0",
            "urn:uuid:" + String(repeating: "x", count: 36),
        ] {
            #expect(Lock.token(other) == nil)
        }
    }
}
