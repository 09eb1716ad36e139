import Foundation
import Glibc

/// The wall clock of some programs, which can be stepped while they run. It is a library that is
/// preloaded into them (Tests/ShiftedClock/shifted-clock.c).
package final class ShiftedClock: @unchecked Sendable {
    /// The environment of the programs.
    package let environment: [String: String]
    private let home: TemporaryDirectory
    private let memory: UnsafeMutableRawPointer
    private static let size = 16

    package init() throws {
        home = try TemporaryDirectory("clock")
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "ShiftedClock/shifted-clock.c").path
        let library = "\(home.path)/shifted-clock.so"
        try Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source).succeed()
        let file = "\(home.path)/seconds"
        try Data(count: Self.size).write(to: URL(filePath: file))
        let descriptor = try OpenFile(file, O_RDWR)
        guard
            let memory = mmap(
                nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.descriptor, 0),
            memory != MAP_FAILED
        else { throw SupportError("\(file) cannot be mapped") }
        self.memory = memory
        environment = ["LD_PRELOAD": library, "CONCORD_SHIFTED_CLOCK": file]
    }

    deinit { munmap(memory, Self.size) }

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
