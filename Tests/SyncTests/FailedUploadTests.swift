import Model
import Testing

@testable import Sync

@Suite("Uploads that fail") struct FailedUploadTests {
    private let second: Int64 = 1_000_000_000
    private let one = Identifier(high: 1, low: 1)
    private let other = Identifier(high: 1, low: 2)

    /// Fails at each moment at which it is due, and returns the pauses in seconds.
    private func pauses(_ failed: inout FailedUploads, _ count: Int, from start: Int64) -> [Int64] {
        var now = start
        return (0..<count).map { _ in
            failed.insert(one, path: "a", now: now)
            let next = failed.next(after: now) ?? now
            #expect(failed.isWaiting(one, at: next - 1) && !failed.isWaiting(one, at: next))
            defer { now = next }
            return (next - now) / second
        }
    }

    @Test("each pause is twice the last one, up to five minutes") func pauses() {
        var failed = FailedUploads()
        #expect(pauses(&failed, 11, from: 5) == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
        #expect(failed.count(of: one) == 11)
        // What could be uploaded begins anew.
        let path = failed.remove(one)
        #expect(path == "a")
        #expect(failed.next(after: 0) == nil && failed.count(of: one) == 0)
        #expect(pauses(&failed, 2, from: 99) == [2, 4])
    }

    @Test("others do not wait with it, and a later save does not") func others() {
        var failed = FailedUploads()
        failed.insert(one, path: "a", now: 0)
        #expect(failed.isWaiting(one, at: 1) && !failed.isWaiting(other, at: 1))
        failed.insert(other, path: "b", now: second)
        #expect(failed.next(after: 0) == 2 * second)
        #expect(failed.waiting(at: second) == [one, other])
        #expect(failed.waiting(at: 2 * second) == [other])
        #expect(failed.next(after: 2 * second) == 3 * second)
        // The version that is sent now is none of the past ones.
        var wasPast = failed.removePast(of: "b", except: [other])
        #expect(!wasPast)
        wasPast = failed.removePast(of: "b", except: [one])
        #expect(wasPast)
        #expect(!failed.isWaiting(other, at: second) && failed.isWaiting(one, at: 1))
    }

    @Test("what is not sent any more, or from another path, is forgotten") func forgotten() {
        var failed = FailedUploads()
        failed.insert(one, path: "a", now: 0)
        failed.insert(other, path: "b", now: 0)
        var past = failed.keep([one: "a", other: "b"], examined: 2 * second)
        #expect(past.isEmpty)
        // What still waits may be a conflict version that is held back.
        past = failed.keep([:], examined: second)
        #expect(past.isEmpty)
        past = failed.keep([one: "a", other: "renamed"], examined: 2 * second)
        #expect(past == ["b"] && failed.isWaiting(one, at: 1) && !failed.isWaiting(other, at: 1))
        past = failed.keep([:], examined: 2 * second)
        #expect(past == ["a"] && failed.isEmpty)
    }
}
