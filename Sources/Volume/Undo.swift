import CLinux
import Model
import Synchronization
import SystemCalls

/// What a large file held before it was written in place: old blocks, saved one by one just before they are overwritten.
package final class Undo: Sendable {
    /// Bytes. A saved block covers this much of the file.
    static let blockSize: Int64 = 1 << 16

    package func willWrite(_ descriptor: Int32, offset: Int64, length: Int) throws(Errno) {}
}
