import Model
import Synchronization

/// The passwords that were valid when they were used last, by their hashes. A client that has one
/// is not limited when another client of the same address tries wrong ones.
final class KnownPasswords: Sendable {
    private let known = Mutex<Set<Digest>>([])
    private static let most = 10_000

    func contain(_ hash: Digest) -> Bool { known.withLock { $0.contains(hash) } }

    func note(_ hash: Digest, isValid: Bool) {
        known.withLock { known in
            guard isValid else {
                known.remove(hash)
                return
            }
            if known.count >= KnownPasswords.most { known = [] }
            known.insert(hash)
        }
    }
}
