import Synchronization

/// What callers may have of the hub before it knows who they are, and all of one account together.
package struct CallerLimits: Sendable {
    /// Open connections, in all and from one address. A proxy's are all from one.
    package var connections = 2048
    package var connectionsPerAddress = 512
    /// Until a connection has brought a request's head, and a request without a token its body.
    package var strangerSeconds: Int64 = 10
    /// Until a request with a token is whole.
    package var requestSeconds: Int64 = 900
    /// Between two requests.
    package var idleSeconds: Int64 = 120
    /// Bodies that are held in memory, of one account and of all.
    package var bodyBytesPerAccount = 32 << 20
    package var bodyBytes = 256 << 20

    package init() {}
}

/// Counts what several share, by who has it; never more than is allowed.
final class Shares<Owner: Hashable & Sendable>: Sendable {
    private let all: Int
    private let each: Int
    private let taken = Mutex<(all: Int, each: [Owner: Int])>((0, [:]))

    init(all: Int, each: Int) {
        self.all = all
        self.each = each
    }

    /// False when that is more than is left.
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
