import HubProtocol
import Model
import Synchronization

/// Accounts for the memory that one request's body takes, for the lifetime of this object. Pages
/// and WebDAV use it for what they hold of a document.
package final class BodyBudget: Sendable {
    private let shares: SharedBudget<Identifier>
    private let state = Mutex<(account: Identifier?, bytes: Int)>((nil, 0))

    init(_ shares: SharedBudget<Identifier>) { self.shares = shares }

    /// - Parameter account: Whose memory it is.
    package convenience init(of hub: Hub, for account: Identifier) {
        self.init(hub.bodies)
        belong(to: account)
    }

    /// The memory of the visitors of all links that an account has made.
    package convenience init(of hub: Hub, forLinksOf account: Identifier) {
        self.init(hub.visitorBodies)
        belong(to: account)
    }

    /// For something else of the same account, or of the same visitors.
    convenience init(like other: BodyBudget) {
        self.init(other.shares)
        if let account = other.account { belong(to: account) }
    }

    /// Sets the account before any of the body is read. Bodies without an account are short and not
    /// counted.
    func belong(to account: Identifier) { state.withLock { $0.account = account } }

    /// Nil for a request without a token.
    var account: Identifier? { state.withLock { $0.account } }

    /// Sets how many bytes of the body are in memory from now on.
    ///
    /// - Throws: `.busy` if all bodies of the account, or of the hub, take too much memory.
    package func hold(_ bytes: Int) throws(Failure) {
        if !isHeld(bytes) { throw BodyBudget.busy }
    }

    static let busy = Failure(
        .busy, "The hub is receiving too much at once: try again in a moment.")

    /// Does the same as `hold`, but returns false and changes nothing where that throws.
    package func isHeld(_ bytes: Int) -> Bool {
        state.withLock { state in
            guard let account = state.account else { return true }
            if bytes < state.bytes { shares.give(state.bytes - bytes, of: account) }
            if bytes > state.bytes, !shares.take(bytes - state.bytes, for: account) { return false }
            state.bytes = bytes
            return true
        }
    }

    deinit {
        let (account, bytes) = state.withLock { $0 }
        if let account { shares.give(bytes, of: account) }
    }
}
