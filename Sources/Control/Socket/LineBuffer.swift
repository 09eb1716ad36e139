/// Splits bytes into lines as they arrive. Each byte is examined and moved a bounded number of
/// times, however small the pieces and lines are.
package struct LineBuffer {
    private var bytes: [UInt8] = []
    /// The bytes before this index have been taken.
    private var start = 0
    /// There is no newline between `start` and this index.
    private var scanned = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }
    package var count: Int { bytes.count - start }

    package mutating func append(_ piece: some Collection<UInt8>) {
        if start > bytes.count / 2 {
            bytes.removeFirst(start)
            scanned -= start
            start = 0
        }
        bytes.append(contentsOf: piece)
    }

    /// Returns the first complete line without its end, and skips empty lines; nil if there is
    /// none.
    package mutating func next() -> [UInt8]? {
        while let end = bytes[scanned...].firstIndex(of: UInt8(ascii: "\n")) {
            var line = bytes[start..<end]
            (start, scanned) = (end + 1, end + 1)
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if !line.isEmpty { return Array(line) }
        }
        scanned = bytes.count
        if isEmpty { self = LineBuffer() }
        return nil
    }
}
