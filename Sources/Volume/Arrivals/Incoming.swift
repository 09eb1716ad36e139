import CLinux
import Glibc
import Journal
import Model
import Synchronization
import SystemCalls

/// A function that describes an arrival by its tag; it returns nil for one that is not expected.
/// Its second parameter reads the contents that have arrived, and returns nil if they cannot be
/// read now.
package typealias ExpectedArrival = @Sendable (ArrivalTag, () -> Manifest?) -> Arrival?

/// The directory beside the tree in which changes from the hub are prepared, and the facts that are
/// expected of them. A name there is `ITEM-VERSION-NUMBER`, in hexadecimal, so a logged event can
/// be processed after a crash without anything in memory.
final class Incoming: Sendable {
    /// An O_PATH descriptor.
    let directory: Int32
    let inode: UInt64
    let barrier: WriteBarrier
    private let sequence: Atomic<UInt64>
    private let expected = Mutex<[ArrivalTag: Arrival]>([:])
    private let lookUp = CallbackSlot<ExpectedArrival>()
    private let adopted = CallbackSlot<@Sendable (ArrivalTag, Int64, Transaction) throws -> Void>()

    init(directory: Int32) {
        self.directory = directory
        var status = stat()
        _ = cl_fstat(directory, &status)
        inode = UInt64(status.st_ino)
        barrier = WriteBarrier(directory: directory)
        // Begins at the clock, because the kernel may still cache names that the last mount used.
        sequence = Atomic(UInt64(bitPattern: cl_clock_realtime_ns()))
    }

    // MARK: Names

    /// A name that was never used before.
    func newName(_ mark: ArrivalTag) -> String {
        let number = sequence.wrappingAdd(1, ordering: .relaxed).oldValue
        return "\(mark.item)-\(mark.version)-\(String(number, radix: 16))"
    }

    /// Prefix of an item that was put into the tree from here and was taken back.
    static let returning = "back."

    static func mark(of name: Name) -> ArrivalTag? {
        let parts = name.text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, let item = Identifier(String(parts[0])),
            let version = Identifier(String(parts[1]))
        else { return nil }
        return ArrivalTag(item: item, version: version)
    }

    /// The tag of an item that was taken back.
    static func mark(ofReturning name: Name) -> ArrivalTag? {
        guard name.text.hasPrefix(returning) else { return nil }
        return mark(of: Name(name.text.dropFirst(returning.count)))
    }

    // MARK: Expected arrivals

    func expect(_ arrival: Arrival) { expected.withLock { $0[arrival.mark] = arrival } }
    func forget(_ mark: ArrivalTag) { _ = expected.withLock { $0.removeValue(forKey: mark) } }
    func known(_ mark: ArrivalTag) -> Arrival? { expected.withLock { $0[mark] } }

    func find(_ mark: ArrivalTag, _ contents: () -> Manifest?) -> Arrival? {
        if let known = known(mark) { return known }
        return lookUp.current?(mark, contents)
    }

    func onArrival(_ body: @escaping ExpectedArrival) { lookUp.set(body) }

    func onAdoption(_ body: @escaping @Sendable (ArrivalTag, Int64, Transaction) throws -> Void) {
        adopted.set(body)
    }

    func tell(_ mark: ArrivalTag, _ key: Int64, _ t: Transaction) throws {
        try adopted.current?(mark, key, t)
    }

    // MARK: Cleaning up after a crash

    /// Removes what is left in the directory and returns the names that it kept: packages that
    /// programs had in the tree, whose bytes may be nowhere else.
    func clear() -> [Name] {
        var names: [Name] = []
        var kept: [Name] = []
        try? forEachName(in: directory) { names.append($0) }
        for name in names {
            guard let status = try? entryStatus(name, in: directory) else { continue }
            guard FileSnapshot(status).isDirectory else {
                _ = name.withCString { cl_unlinkat(directory, $0, 0) }
                continue
            }
            var isPrepared = false
            if let inner = try? openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY) {
                isPrepared = ArrivalTag(of: inner.raw) != nil
            }
            if isPrepared || isEmpty(name) { remove(name) } else { kept.append(name) }
        }
        return kept
    }

    private func isEmpty(_ name: Name) -> Bool {
        name.withCString { cl_unlinkat(directory, $0, AT_REMOVEDIR) } == 0
    }

    /// Removes an entry with everything in it.
    func remove(_ name: Name) { Incoming.remove(name, in: directory) }

    private static func remove(_ name: Name, in directory: Int32) {
        guard name.withCString({ cl_unlinkat(directory, $0, 0) }) == -EISDIR else { return }
        var names: [Name] = []
        if let inner = try? openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY) {
            try? forEachName(in: inner.raw) { names.append($0) }
            for name in names { remove(name, in: inner.raw) }
        }
        _ = name.withCString { cl_unlinkat(directory, $0, AT_REMOVEDIR) }
    }
}
