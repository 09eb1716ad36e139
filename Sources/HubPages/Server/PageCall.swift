import ChunkStore
import Foundation
import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model

/// One request to a page.
struct PageCall: Sendable {
    let hub: Hub
    let request: Request
    let client: PageClient

    /// The parameters of the address.
    ///
    /// - Throws: `.malformed`.
    var query: Fields {
        get throws(Failure) {
            let path = request.head.path ?? ""
            let start = path.firstIndex(of: "?").map(path.index(after:)) ?? path.endIndex
            return try Fields(path[start...])
        }
    }

    /// The fields of the form in the request's body, without a check of its token.
    ///
    /// - Throws: `.contentType`, `.tooLarge`, `.malformed`.
    func uncheckedForm() async throws -> Fields {
        let type = request.headers[.contentType]?.prefix { $0 != ";" } ?? ""
        guard type.lowercased() == "application/x-www-form-urlencoded" else {
            throw Failure(.contentType, "This is not a form of the hub's pages.")
        }
        let bytes: [UInt8]
        do {
            bytes = Array(
                try await request.body.collect(upTo: PageLimits.formBytes).readableBytesView)
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            throw Failure(
                .tooLarge, "A form has at most \(PageLimits.formBytes) bytes and arrives whole.")
        }
        return try Fields(String(decoding: bytes, as: UTF8.self))
    }

    /// Checks that a form comes from one of the hub's pages: by the browser's word, where it gives
    /// it, and by the token that the page had.
    ///
    /// - Throws: `.malformed`.
    func check(_ form: Fields, token: String) throws {
        let site = request.headers[.fetchSite] ?? "same-origin"
        guard site == "same-origin", let given = form["token"], given.isSecretly(token) else {
            throw Failure(
                .malformed,
                "This form does not come from the hub's page as you see it now. Nothing was "
                    + "changed. Go back, load the page again, and try once more.")
        }
    }

    /// Whether a link of another site leads here. The browser then sends no cookies, because they
    /// are strict, and must ask again from a page of the hub.
    var isFirstFromElsewhere: Bool {
        request.method == .get && request.headers[.fetchSite] == "cross-site"
            && request.headers[.fetchMode] == "navigate" && request.headers[.cookie] == nil
    }

    /// Scheme, host and port of the hub's pages as a browser says them in `Origin`; nil if the
    /// request does not name a host.
    var origin: String? {
        guard let authority = request.head.authority?.lowercased(), !authority.isEmpty else {
            return nil
        }
        let (scheme, port) = client.isEncrypted ? ("https", ":443") : ("http", ":80")
        let host = authority.hasSuffix(port) ? authority.dropLast(port.count) : authority[...]
        return "\(scheme)://\(host)"
    }

    // MARK: Cookies

    func cookie(_ name: String) -> String? {
        for header in request.headers[values: .cookie] {
            for pair in header.split(separator: ";") {
                let parts = pair.split(
                    separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2,
                    parts[0].trimmingCharacters(in: .whitespaces) == prefix + name
                else { continue }
                return parts[1].trimmingCharacters(in: .whitespaces)
            }
        }
        return nil
    }

    /// Browsers accept this prefix only from an encrypted connection.
    private var prefix: String { client.isEncrypted ? "__Secure-" : "" }

    /// The header that sets a cookie, or removes it.
    ///
    /// - Parameters:
    ///   - seconds: How long the browser keeps it; nil until it is closed.
    ///   - path: The pages to which the browser sends it.
    func setCookie(
        _ name: String, _ value: String, seconds: Int64?, path: String = PagePath.top
    ) -> String {
        var cookie = "\(prefix)\(name)=\(value); Path=\(path); HttpOnly; SameSite=Strict"
        if client.isEncrypted { cookie += "; Secure" }
        if let seconds { cookie += "; Max-Age=\(seconds)" }
        return cookie
    }

    /// The token of the browser's session.
    var sessionToken: String? { cookie(Session.cookie) }

    /// A random secret that the browser keeps also while nobody is signed in.
    var browser: Browser? { cookie(Browser.cookie).flatMap { Browser($0) } }

    /// - Throws: `.unauthenticated`.
    func session() async throws -> Session {
        let use = TokenUse.browser(lifetime: 0)
        let caller = try await hub.devices.caller(token: sessionToken ?? "", as: use)
        let isOwner = try await hub.ledger.read { try Owners.contains(caller.account, $0) }
        return Session(
            call: self, caller: caller, token: sessionToken ?? "", isOwner: isOwner,
            budget: BodyBudget(of: hub, for: caller.account))
    }
}

/// The limits of what pages accept and show.
enum PageLimits {
    static let formBytes = 64 << 10
    /// The fields of a form, its files included.
    static let fields = 1000
    /// Items on one page of a folder.
    static let rows = 200
    /// A folder with more items is not sorted by name, because all of it would be read each time.
    static let sorted = 20_000
    /// The same for the bytes of what is known of its items.
    static let sortedBytes = 32 << 20
    /// The rows that are read for a page of such a folder's past.
    static let scanned = 2000
    /// The moments between which a person moves through a folder's past.
    static let moments = 100
    /// The bytes of a text that a page shows.
    static let textBytes = 256 << 10
    /// The bytes of a text that is compared with another one, or edited.
    static let comparedBytes = 512 << 10
    static let editedBytes = 512 << 10
    /// Files in one form.
    static let files = 200
    /// Files of a package on its page.
    static let packageEntries = 1000
    /// Versions on one page of a document.
    static let versions = 50
    /// Accounts on the page of the hub's owner.
    static let accounts = 1000
    /// Items on the page of a volume's last changes.
    static let changes = 100
}

extension HTTPField.Name {
    static let fetchSite = HTTPField.Name("Sec-Fetch-Site")!
    static let fetchMode = HTTPField.Name("Sec-Fetch-Mode")!
}

extension String {
    /// Compares with a secret, by hashes: the time that it takes does not tell where the first
    /// difference is.
    func isSecretly(_ secret: String) -> Bool {
        Digest.sha256(Array(utf8)) == Digest.sha256(Array(secret.utf8))
    }
}
