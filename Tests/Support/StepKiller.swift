import Foundation
import Glibc

/// Ends a daemon, or another program, with SIGKILL just before one of the calls by which it changes
/// files or answers the kernel; another program also before it connects to a socket. The calls are
/// counted by a library that is preloaded into the program (Tests/KillAtStep/kill-at-step.c).
package final class StepKiller {
    /// The environment of the program.
    package let environment: [String: String]
    private let library: PreloadedLibrary
    private static let size = 64
    private var memory: UnsafeMutableRawPointer { library.memory }

    /// - Parameters:
    ///   - program: The name of the program that is killed.
    ///   - hasFault: Whether the library plants a fault, to show that it would be found.
    package init(program: String = "concord", hasFault: Bool = false) throws {
        library = try PreloadedLibrary("KillAtStep/kill-at-step.c", sharing: Self.size)
        environment = [
            "LD_PRELOAD": library.path, "CONCORD_KILL_CONTROL": library.file,
            "CONCORD_KILL_PROGRAM": program,
            "CONCORD_KILL_PLANT": hasFault ? library.beside("planted") : nil,
        ].compactMapValues { $0 }
    }

    private subscript(index: Int) -> Int {
        get { Int(memory.load(fromByteOffset: 4 * index, as: Int32.self)) }
        set {
            memory.storeBytes(of: Int32(newValue), toByteOffset: 4 * index, as: Int32.self)
        }
    }

    /// From now on calls are counted; the one with this number, the first being 1, is the last.
    package func arm(at step: Int) {
        self[1] = 0
        self[2] = step
        memory.advanced(by: 12).initializeMemory(as: UInt8.self, repeating: 0, count: 52)
        self[0] = 1
    }

    package func disarm() { self[0] = 0 }

    /// How many calls were counted.
    package var steps: Int { self[1] }

    /// The name of the call before which the program was ended; empty if it was not.
    package var call: String {
        String(cString: memory.advanced(by: 12).assumingMemoryBound(to: CChar.self))
    }
}
