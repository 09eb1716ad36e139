import ChunkStore
import Hub
import HubProtocol
import Model

/// Somebody without an account who has opened a link.
struct Visit: Sendable {
    let link: OpenLink
    /// The secret in the link's address.
    let token: String

    /// The address of the link's page.
    var address: String { "\(Routes.links)/\(token)" }

    /// Whether the visitor may save new versions.
    var edits: Bool { link.row.edits }

    func address(_ view: PagePath.View) -> String {
        view == .page ? address : "\(address)/\(view.rawValue)"
    }

    // MARK: The password

    /// The cookie of a visitor who has entered the link's password.
    static let cookie = "concord-link"
    private static let seconds: Int64 = 12 * 3600

    /// What the cookie has: when it expires, and a code over it that only the hub can calculate,
    /// because only the hub knows what is stored of the password.
    func ticket(at time: Int64) -> String {
        let expires = time + Timestamp.span(seconds: Visit.seconds)
        return "\(expires)-\(code(expires))"
    }

    func admits(_ ticket: String?, at time: Int64) -> Bool {
        guard link.row.password != nil else { return true }
        let parts = (ticket ?? "").split(separator: "-")
        guard parts.count == 2, let expires = Int64(parts[0]), expires > time else { return false }
        return String(parts[1]).isSecretly(code(expires))
    }

    private func code(_ expires: Int64) -> String {
        let message = Array("visit \(token) \(expires)".utf8)
        let code = Digest.keyed(by: link.row.password?.bytes ?? [], message)
        return hexadecimal(code.bytes.dropFirst())
    }
}
