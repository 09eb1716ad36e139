import Glibc
import SystemCalls

/// Failures to write pages that a mapping has changed. The kernel writes them when a program
/// unmaps, syncs or closes the file, and tells nobody the answer. So each open file tells its
/// program about those since it was opened, when it is closed.
struct UnwrittenPages: Sendable {
    private(set) var count: UInt64 = 0
    private var error = Errno(EIO)

    mutating func note(_ error: Errno) {
        count += 1
        self.error = error
    }

    /// The last failure after the first `known` ones.
    func failure(after known: UInt64) -> Errno? { count > known ? error : nil }
}
