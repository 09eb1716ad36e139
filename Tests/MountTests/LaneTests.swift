import Foundation
import Support
import Synchronization
import Testing

@testable import Mount

/// Requests that wait for one thing do not delay requests that wait for another.
@Suite("Threads for parked requests")
struct LaneTests {
    @Test(
        "requests waiting in one lane do not delay another lane", arguments: Parking.Lane.allCases
    )
    func lanes(_ full: Parking.Lane) throws {
        let parking = Parking()
        let applierGuard = DispatchSemaphore(value: 0)
        for _ in 0..<100 { parking.runDetached(on: full) { applierGuard.wait() } }
        for lane in Parking.Lane.allCases where lane != full {
            let isDone = DispatchSemaphore(value: 0)
            parking.runDetached(on: lane) { isDone.signal() }
            #expect(isDone.wait(timeout: .now() + 60) == .success, "\(lane) waits for \(full)")
        }
        for _ in 0..<100 { applierGuard.signal() }
        parking.stop()
    }

    @Test("a pool has no more threads than its limit, and runs all work that it has accepted")
    func limit() {
        let pool = ThreadPool("test", limit: 3)
        let state = Mutex((running: 0, most: 0, done: 0))
        for _ in 0..<200 {
            pool.run {
                state.withLock {
                    $0.running += 1
                    $0.most = max($0.most, $0.running)
                }
                usleep(100)
                state.withLock {
                    $0.running -= 1
                    $0.done += 1
                }
            }
        }
        pool.close()
        #expect(state.withLock { $0.done } == 200)
        #expect((1...3).contains(state.withLock { $0.most }))
        #expect(!pool.run {}, "It is closed.")
    }

    @Test("work that meets a thread about to end is not forgotten")
    func ending() {
        // Threads end very soon when idle, so most of the work meets one that is ending.
        let pool = ThreadPool("test", limit: 2, idleSeconds: 0)
        for _ in 0..<2000 {
            let isDone = DispatchSemaphore(value: 0)
            pool.run { isDone.signal() }
            #expect(isDone.wait(timeout: .now() + 60) == .success)
        }
        pool.close()
    }
}
