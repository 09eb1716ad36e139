import Glibc
import SystemCalls
import Testing

@testable import chaos

@Suite("The circumstances of a failure") struct CircumstancesTests {
    private let beginning = Circumstances(faults: 3, absences: 1)

    private func excuse(_ codes: [Int32], _ now: Circumstances) -> [Bool] {
        codes.map { now.excuse(Errno($0), since: beginning) }
    }

    /// The mount point is an empty directory until the device is there again.
    @Test("a device that was away meanwhile explains that nothing was found") func absence() {
        let now = Circumstances(faults: 4, absences: 2)
        #expect(excuse([ENOENT, ENOTCONN], now) == [true, true])
        #expect(excuse([EEXIST, ENOTEMPTY, ENOTDIR], now) == [false, false, false])
    }

    @Test("a device that was only stopped does not") func stop() {
        let now = Circumstances(faults: 4, absences: 1)
        #expect(excuse([ENOENT, EIO], now) == [false, true])
    }

    @Test("without a fault, only the connection and a full disk explain an error")
    func usual() {
        #expect(excuse([ENOENT, EIO, ENOSPC], beginning) == [false, false, false])
        #expect(excuse([ENETUNREACH, ETIMEDOUT], beginning) == [true, true])
        let full = Circumstances(faults: 3, absences: 1, isFull: true)
        #expect(excuse([ENOSPC, EIO], full) == [true, false])
    }
}
