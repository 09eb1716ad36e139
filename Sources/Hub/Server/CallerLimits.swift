import Synchronization

/// Limits for clients before the hub knows who they are, and for all requests of one account
/// together.
package struct CallerLimits: Sendable {
    /// Open connections: all, and from one address, or from one network of 64 bits with IPv6. All
    /// clients of a proxy have the proxy's address.
    package var connections = 2048
    package var connectionsPerAddress = 512
    /// The time until a connection has sent a request's head, and until a request without a token
    /// has sent its body.
    package var unauthenticatedSeconds: Int64 = 10
    /// The time until a request with a token has arrived completely.
    package var requestSeconds: Int64 = 900
    /// The time between two requests of a connection.
    package var idleSeconds: Int64 = 120
    /// The bytes that are read of a document or form after its request was refused.
    package var restBytes = 256 << 20
    /// The bytes of bodies that are held in memory: for one account, and for all. A quarter of the
    /// latter is for visitors of links.
    package var bodyBytesPerAccount = 24 << 20
    package var bodyBytes = 256 << 20
    package var versions = VersionLimits()
    package var steps = StepLimits()

    package init() {}
}

/// A shared amount with a limit for all owners together and a limit for each owner.
final class SharedBudget<Owner: Hashable & Sendable>: Sendable {
    private let all: Int
    private let each: Int
    private let taken = Mutex<(all: Int, each: [Owner: Int])>((0, [:]))

    init(all: Int, each: Int) {
        self.all = all
        self.each = each
    }

    /// Returns false, and takes nothing, if the amount exceeds what is left.
    func take(_ amount: Int, for owner: Owner) -> Bool {
        taken.withLock { taken in
            let own = taken.each[owner] ?? 0
            guard amount <= all - taken.all, amount <= each - own else { return false }
            taken.all += amount
            taken.each[owner] = own + amount
            return true
        }
    }

    func give(_ amount: Int, of owner: Owner) {
        taken.withLock { taken in
            taken.all -= amount
            let left = (taken.each[owner] ?? 0) - amount
            taken.each[owner] = left > 0 ? left : nil
        }
    }
}
