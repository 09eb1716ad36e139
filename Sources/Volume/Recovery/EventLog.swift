import CLinux
import Glibc
import Model
import SystemCalls

/// Events that the journal does not have yet, in files `events.1`, `events.2`, … of the store. They
/// survive when the daemon is killed, but not a loss of power, because they are not synced; then
/// the scan finds what has changed.
///
/// Access is guarded by the lock of `EventQueue`.
struct EventLog: ~Copyable {
    /// An O_PATH descriptor of the store.
    private let directory: Int32
    private var file: Int32 = -1
    private var oldest: UInt64
    private var number: UInt64
    private var size: Int64 = 0
    private var record: [UInt8] = []

    private static let prefix = "events."

    /// The logs in the store, oldest first.
    private static func numbers(in directory: Int32) -> [UInt64] {
        var numbers: [UInt64] = []
        try? forEachName(in: directory) { name in
            let text = name.text
            guard text.hasPrefix(prefix), let number = UInt64(text.dropFirst(prefix.count)) else {
                return
            }
            numbers.append(number)
        }
        return numbers.sorted()
    }

    /// The events that a killed daemon has left.
    static func leftovers(in directory: Int32) -> [NotedEvent] {
        numbers(in: directory).flatMap { number -> [NotedEvent] in
            guard
                let file = try? Descriptor(
                    opening: prefix + "\(number)", in: directory, flags: O_RDONLY | O_NOFOLLOW),
                let size = try? file.status().st_size, size > 0
            else { return [] }
            var bytes = [UInt8](repeating: 0, count: size)
            let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
            return NotedEvent.decodeAll(Array(bytes[..<count]))
        }
    }

    init(directory: Int32) {
        self.directory = directory
        let numbers = EventLog.numbers(in: directory)
        number = (numbers.last ?? 0) + 1
        oldest = numbers.first ?? number
    }

    deinit { if file >= 0 { _ = cl_close(file) } }

    /// If the disk is full, the event is kept in memory only and would be lost with this process.
    mutating func append(_ event: NotedEvent) {
        if file < 0 {
            file = cl_openat(
                directory, EventLog.prefix + "\(number)", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            size = 0
        }
        guard file >= 0 else { return }
        record.removeAll(keepingCapacity: true)
        event.encode(into: &record)
        let written = record.withUnsafeBytes {
            cl_pwrite(file, $0.baseAddress, $0.count, size)
        }
        if written == record.count { size += Int64(written) }
    }

    /// Ends the current file; the next event begins a new one.
    mutating func rotate() {
        guard file >= 0 else { return }
        _ = cl_close(file)
        file = -1
        number += 1
    }

    var isEmpty: Bool { file < 0 && oldest == number }

    /// Returns the names of all files but the current one; the caller removes them.
    mutating func takeOlder() -> [String] {
        defer { oldest = number }
        return (oldest..<number).map { EventLog.prefix + "\($0)" }
    }
}
