import Model
import Testing

@testable import Sync

@Suite("Large downloads that fail") struct FailedDownloadTests {
    private let second: Int64 = 1_000_000_000
    private let item = Identifier(high: 1, low: 1)
    private let version = Identifier(high: 2, low: 1)

    /// Fails at each moment at which it is tried again, and returns the pauses in seconds.
    private func pauses(_ failed: inout FailedDownloads, _ count: Int, isPassing: Bool) -> [Int64] {
        var now: Int64 = 7
        return (0..<count).map { _ in
            failed.insert(item, version, path: "a", isPassing: isPassing, now: now)
            let next = failed.next ?? now
            #expect(failed.waiting(at: next - 1) == [item: version])
            #expect(failed.waiting(at: next) == [:] && failed.next == nil)
            defer { now = next }
            return (next - now) / second
        }
    }

    @Test("each pause is twice the last one, unless the connection is the reason") func pauses() {
        var failed = FailedDownloads()
        #expect(pauses(&failed, 8, isPassing: false) == [5, 10, 20, 40, 80, 160, 300, 300])
        #expect(pauses(&failed, 3, isPassing: true) == [5, 5, 5])
        #expect(pauses(&failed, 2, isPassing: false) == [5, 10])
    }

    @Test("another version of the document does not wait") func another() {
        var failed = FailedDownloads()
        let other = Identifier(high: 2, low: 2)
        for _ in 0..<3 { failed.insert(item, version, path: "a", isPassing: false, now: 0) }
        #expect(failed.isWaiting(item, version) && !failed.isWaiting(item, other))
        failed.insert(item, other, path: "b", isPassing: false, now: 0)
        #expect(failed.next == 5 * second && failed.path(of: item) == "b")
        failed.remove(item)
        #expect(failed.waiting(at: 0) == [:] && failed.path(of: item) == nil)
    }
}
