import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A queue from a connection's thread to the main thread. Its descriptor lets the main thread poll
/// for it together with signals and other descriptors.
package final class Inbox<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])
    private let readEnd: Descriptor
    private let writeEnd: Descriptor

    package init() throws(VolumeError) {
        var ends: [Int32] = [0, 0]
        do throws(Errno) { try check(cl_pipe(&ends)) } catch {
            throw VolumeError(.system, "cannot make a pipe: \(error)")
        }
        readEnd = Descriptor(owning: ends[0])
        writeEnd = Descriptor(owning: ends[1])
    }

    /// Readable while the queue is not empty.
    package var descriptor: Int32 { readEnd.raw }

    package func put(_ element: Element) {
        elements.withLock { elements in
            elements.append(element)
            // The pipe holds one byte while the queue is not empty, so that it can never be full.
            guard elements.count == 1 else { return }
            var byte: UInt8 = 1
            _ = write(writeEnd.raw, &byte, 1)
        }
    }

    /// Returns and removes all elements; empty when there are none.
    package func take() -> [Element] {
        elements.withLock { elements in
            guard !elements.isEmpty else { return [] }
            var byte: UInt8 = 0
            _ = read(readEnd.raw, &byte, 1)
            defer { elements = [] }
            return elements
        }
    }
}

/// A descriptor for SIGINT, SIGTERM and SIGHUP. Create it before any thread starts, because only
/// threads that start later inherit the blocked signals.
struct Signals: ~Copyable {
    private let source: Descriptor
    var descriptor: Int32 { source.raw }

    struct Signal {
        let number: Int32
        /// False for a signal from the keyboard, which every program in the foreground gets.
        let isByProgram: Bool
    }

    init() throws(VolumeError) {
        do throws(Errno) { source = Descriptor(owning: try check(cl_signal_descriptor())) } catch {
            throw VolumeError(.system, "cannot watch for signals: \(error)")
        }
    }

    func take() -> Signal? {
        var byProgram: Int32 = 0
        let number = cl_take_signal(source.raw, &byProgram)
        return number > 0 ? Signal(number: number, isByProgram: byProgram != 0) : nil
    }
}

/// Waits until one of the descriptors is readable or closed by its other end, or `seconds` are
/// over; nil means no limit.
func waitForAny(of descriptors: [Int32], seconds: Double? = nil) {
    var ready = [Int16](repeating: 0, count: descriptors.count)
    let wanted = [Int16](repeating: Int16(POLLIN), count: descriptors.count)
    let limit = seconds.map { Int32(clamping: Int(min(max($0, 0), 1e6) * 1000) + 1) } ?? -1
    _ = cl_poll(descriptors, wanted, &ready, Int32(descriptors.count), limit)
}
