import Model
import Support
import Testing

@testable import Sync

/// What a device makes of the hub's clock, and of a hub whose clock is wrong for a while.
@Suite("The hub's clock", .serialized) struct HubClockTests {
    /// An exchange that took `delay` nanoseconds in all, with a hub that is `ahead` nanoseconds.
    private func learn(_ clock: HubClock, ahead: Int64, delay: Int64) {
        let answered = ahead + delay / 2
        clock.learn(sent: 0, received: answered, answered: answered, came: delay)
    }

    @Test("the shortest exchange counts, unless a later one shows that a clock was set")
    func offset() {
        let (clock, second) = (HubClock(), Timestamp.span(seconds: 1))
        learn(clock, ahead: 5, delay: 10)
        #expect(clock.offset == 5)
        learn(clock, ahead: 700, delay: 1_000)
        #expect(clock.offset == 5)
        learn(clock, ahead: 8, delay: 6)
        #expect(clock.offset == 8)
        for ahead in [-4_000 * 86_400, 0, 3_000_000_000, -3_000_000_000] as [Int64] {
            learn(clock, ahead: ahead * second, delay: 2 * second)
            #expect(clock.offset == ahead * second)
        }
    }

    /// A hub without a battery begins with an old time. A token that it gave then would have ended
    /// before the right time.
    @Test("a token that is due for renewal waits until the hub's clock is right")
    func renewal() throws {
        let clock = try ShiftedClock()
        try Fleet.with(1, hub: try HubProcess(environment: clock.environment)) { fleet in
            let credentials = "\(fleet.devices[0].store)/credentials"
            func token() throws -> String { try Command("cat", credentials).succeed() }
            // Returns after a round in which the device has sent something.
            func meet(_ text: String) throws {
                try fleet.put(0, "a", text)
                try fleet.settle()
            }
            try meet("1\n")
            let first = try token()
            clock.ahead = -4_000 * 86_400
            try meet("2\n")
            try Command("touch", "-d", "8 days ago", credentials).succeed()
            try meet("3\n")
            #expect(try token() == first)
            clock.ahead = 0
            try meet("4\n")
            try wait(seconds: 20, for: "the token to be renewed") {
                try token() != first ? true : nil
            }
            // A clock of this device was ahead.
            try Command("touch", "-d", "8 days", credentials).succeed()
            let second = try token()
            try meet("5\n")
            try wait(seconds: 20, for: "the token to be renewed again") {
                try token() != second ? true : nil
            }
        }
    }
}
