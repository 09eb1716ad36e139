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

    /// - Throws: `.busy` when the account has too much at the hub at once.
    func add(_ bytes: Int) throws(Failure) {
        let isTaken = state.withLock { state in
            guard let account = state.account else { return true }
            guard shares.take(bytes, for: account) else { return false }
            state.bytes += bytes
            return true
        }
        if isTaken { return }
        throw Failure(.busy, "The hub has too much to take at once: try again in a moment.")
    }

    deinit {
        let (account, bytes) = state.withLock { $0 }
        if let account { shares.give(bytes, of: account) }
    }
}
