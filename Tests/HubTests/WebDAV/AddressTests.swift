import HubProtocol
import Testing

@testable import HubWebDAV

/// Addresses below `/dav`.
struct AddressTests {
    @Test func partsAreDecodedOnce() throws {
        #expect(try Address(path: "/dav").parts == [])
        #expect(try Address(path: "/dav/?x").parts == [])
        #expect(try Address(path: "/dav/Docs/a%20b%2525/").parts == ["Docs", "a b%25"])
        #expect(try Address(path: "/dav/bert%40x@Docs/%C3%A9").parts == ["bert@x@Docs", "é"])
    }

    @Test(arguments: [
        "/dav/Docs/../x", "/dav/Docs/%2e%2E/x", "/dav/Docs/./x", "/dav//x", "/dav/Docs//x",
        "/dav/Docs/a%00b", "/dav/Docs/a%2Fb", "/dav/Docs/%2F", "/dav/Docs/%FF", "/dav/Docs/%zz",
        "/dav/Docs/%", "/dav/..", "/dav/%2e", "/davx/Docs", "/other", "",
        "/dav/Docs/" + String(repeating: "a", count: 256),
    ])
    func whatNoItemCanBeCalledIsRefused(_ path: String) {
        #expect(throws: Failure.self) { _ = try Address(path: path) }
    }

    @Test func aPathMeansTheSameAgain() throws {
        let names = [
            "a b", "%25", "ä/ö".replacing("/", with: ":"), "?", "#", "+", "<&\">", "😀", "\n",
        ]
        for name in names {
            let address = Address(["Docs", name])
            #expect(try Address(path: address.path(isCollection: false)) == address, "\(name)")
            #expect(try Address(path: address.path(isCollection: true)) == address, "\(name)")
        }
    }

    @Test func anotherServerIsRefused() throws {
        func parts(_ uri: String, _ host: String = "hub:8420") throws -> [String] {
            try Address(uri: uri, host: host).parts
        }
        #expect(try parts("/dav/Docs/a") == ["Docs", "a"])
        #expect(try parts("http://hub:8420/dav/Docs/a") == ["Docs", "a"])
        #expect(try parts("https://HUB:8420/dav/Docs/a") == ["Docs", "a"])
        #expect(try parts("https://hub:443/dav/Docs/a", "hub") == ["Docs", "a"])
        for uri in ["http://other:8420/dav/a", "http://hub:8421/dav/a", "http:///dav/a"] {
            let refusal = #expect(throws: Refusal.self) { _ = try parts(uri) }
            #expect(refusal?.status == 502, "\(uri)")
        }
        for uri in ["ftp://hub:8420/dav/a", "dav/a", "", "//other/dav/a", "http://hub:8420"] {
            #expect(throws: Failure.self) { _ = try parts(uri) }
        }
    }

    @Test func timesAreThoseOfHTTP() {
        #expect(HTTPDate.text(784_111_777_000_000_000) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(951_782_400_000_000_000) == "Tue, 29 Feb 2000 00:00:00 GMT")
        #expect(HTTPDate.text(-1) == "Wed, 31 Dec 1969 23:59:59 GMT")
        #expect(HTTPDate.text(0) == "Thu, 01 Jan 1970 00:00:00 GMT")
    }
}
