import HubProtocol
import Model
import Synchronization

/// The body of one call, as long as the call holds it.
final class HeldBody: Sendable {
    private let shares: Shares<Identifier>
    private let state = Mutex<(account: Identifier?, bytes: Int)>((nil, 0))

    init(_ shares: Shares<Identifier>) { self.shares = shares }

    /// Before any of the body is taken. Of somebody unknown there is little.
    func belong(to account: Identifier) { state.withLock { $0.account = account } }

    /// Nil of somebody unknown.
    var account: Identifier? { state.withLock { $0.account } }

    /// Says how much of it is in memory from now on.
    ///
    /// - Throws: `.busy` when the account has too much at the hub at once.
    func hold(_ bytes: Int) throws(Failure) {
        if isHeld(bytes) { return }
        throw Failure(.busy, "The hub has too much to take at once: try again in a moment.")
    }

    /// As `hold`; false, and nothing has changed, where that throws.
    func isHeld(_ bytes: Int) -> Bool {
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
