import Model
import Testing

@testable import Volume

/// The log of events after a crash, which may have cut or damaged it anywhere.
@Suite struct EventLogTests {
    @Test("a log that was cut or damaged anywhere gives the events before that place")
    func damaged() throws {
        let actor = Actor(process: 7, uid: 1000, program: "vim")
        let entry = DirectoryEntry(directory: 2, name: Name("letter.txt"))
        let events: [TreeEvent] = [
            .untouched(inode: 5),
            .saved(inode: 6, isLate: true, by: actor),
            .secured(inode: 7, stash: "copy.7", by: actor),
            .swapped(entry, DirectoryEntry(directory: 3, name: Name("b"))),
            .attributes(inode: 8),
        ]
        var bytes: [UInt8] = []
        /// Where each record ends.
        var ends = [0]
        for (index, event) in events.enumerated() {
            NotedEvent(event: event, time: 1_000 + Int64(index), sequence: UInt64(index + 1))
                .encode(into: &bytes)
            ends.append(bytes.count)
        }
        /// The first `count` records, encoded again.
        func expect(_ found: [NotedEvent], _ count: Int, _ what: String) {
            var again: [UInt8] = []
            for event in found { event.encode(into: &again) }
            #expect(again == Array(bytes[..<ends[count]]), "\(what)")
        }
        expect(NotedEvent.decodeAll(bytes), events.count, "whole")
        for length in 0..<bytes.count {
            let whole = ends.lastIndex { $0 <= length }!
            expect(NotedEvent.decodeAll(Array(bytes[..<length])), whole, "cut at \(length)")
            for bits: UInt8 in [0xFF, 0x01, 0x80] {
                var wrong = bytes
                wrong[length] ^= bits
                expect(NotedEvent.decodeAll(wrong), whole, "\(length) ^ \(bits)")
            }
        }
    }
}
