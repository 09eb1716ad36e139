/// Opens for writing, and truncations by a path, that were answered with ESTALE because their file
/// was replaced or removed while the kernel was resolving the path. Otherwise the program would
/// write to a file that is no longer the document, because the kernel updates its cached name only
/// some time after RENAME was answered.
///
/// After ESTALE the kernel resolves the path once more; a second ESTALE would reach the program. An
/// open of a file without a name through /proc/self/fd therefore succeeds at the second attempt.
struct StaleOpens {
    private struct Open: Equatable {
        var node: UInt64
        var thread: Int32
    }

    private static let limit = 64
    /// The oldest first.
    private var recent: [Open] = []

    /// Whether this thread's open of the file, or its truncation, is not a repetition.
    mutating func isFirst(of node: UInt64, by thread: Int32) -> Bool {
        let open = Open(node: node, thread: thread)
        if let index = recent.firstIndex(of: open) {
            recent.remove(at: index)
            return false
        }
        if recent.count >= Self.limit { recent.removeFirst() }
        recent.append(open)
        return true
    }
}
