/// The wall clock of some programs, which can be stepped while they run. It is a library that is
/// preloaded into them (Tests/ShiftedClock/shifted-clock.c).
package final class ShiftedClock: @unchecked Sendable {
    /// The environment of the programs.
    package let environment: [String: String]
    private let library: PreloadedLibrary
    private var memory: UnsafeMutableRawPointer { library.memory }

    package init() throws {
        library = try PreloadedLibrary("ShiftedClock/shifted-clock.c", sharing: 16)
        environment = ["LD_PRELOAD": library.path, "CONCORD_SHIFTED_CLOCK": library.file]
    }

    /// How many seconds the wall clock is ahead of the right time.
    package var ahead: Int {
        get { Int(memory.load(as: Int64.self)) }
        set { memory.storeBytes(of: Int64(newValue), as: Int64.self) }
    }

    /// How many seconds the machine has been suspended in all: the wall clock and the time since
    /// the start count them, and the monotonic clock does not.
    package var suspended: Int {
        get { Int(memory.load(fromByteOffset: 8, as: Int64.self)) }
        set { memory.storeBytes(of: Int64(newValue), toByteOffset: 8, as: Int64.self) }
    }
}
