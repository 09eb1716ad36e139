import Foundation
import Glibc
import Support
import Testing

private let environment = ProcessInfo.processInfo.environment
private let soakMinutes = environment["CONCORD_SOAK_MINUTES"].flatMap { Double($0) }

/// Two devices edit the same documents alternately, each after it has received the other's change.
/// There must be no conflict, and a device that only receives must send nothing.
@Suite("Two devices edit alternately", .serialized) struct TurnTakingTests {
    @Test("A20.6: alternating edits cause no echo")
    func some() throws { try takeTurns(documents: 100, edits: 800) }

    @Test(
        "CONCORD_EDITS edits, a million by default", .enabled(if: soakMinutes != nil, "soak")
    )
    func soak() throws {
        let edits = environment["CONCORD_EDITS"].flatMap { Int($0) } ?? 1_000_000
        try takeTurns(documents: 2000, edits: edits)
    }

    private func takeTurns(documents: Int, edits: Int) throws {
        try Fleet.with(2) { fleet in
            var (turn, done) = (0, 0)
            while done < edits {
                let (writer, listener) = (turn % 2, 1 - turn % 2)
                let before = try (sent(fleet, writer), sent(fleet, listener))
                for number in 0..<documents {
                    let path = "\(fleet.devices[writer].path)/\(number).txt"
                    try save("turn \(turn) of document \(number)\n", to: path)
                }
                try fleet.settle(seconds: 120)
                #expect(try sent(fleet, writer) == before.0 + documents, "turn \(turn)")
                #expect(try sent(fleet, listener) == before.1, "an echo in turn \(turn)")
                done += documents
                turn += 1
                if turn % 25 == 0 { print("\(done) edits in \(turn) turns") }
                if try !isCalm(fleet, documents) { break }
            }
            try fleet.expectEqual()
        }
    }

    /// Saves in place, as most programs do.
    private func save(_ text: String, to path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        try #require(file >= 0, "\(path): \(errno)")
        defer { close(file) }
        let bytes = Array(text.utf8)
        try #require(write(file, bytes, bytes.count) == bytes.count)
    }

    private func isCalm(_ fleet: Fleet, _ documents: Int) throws -> Bool {
        for (index, device) in fleet.devices.enumerated() {
            let conflicts = try query(device, "SELECT count(*) FROM versions WHERE kind = 3")
            #expect(conflicts == "0", "conflicts on device \(index)")
            let names = try fleet.names(index).count
            #expect(names == documents, "device \(index)")
            if conflicts != "0" || names != documents { return false }
        }
        return true
    }

    /// Returns the number of operations that a device has ever numbered.
    private func sent(_ fleet: Fleet, _ index: Int) throws -> Int {
        let session = try query(
            fleet.devices[index], "SELECT value FROM meta WHERE key = 'hub.session'")
        return try #require(Int(session.split(separator: " ")[5]))
    }

    private func query(_ device: MountedVolume, _ sql: String) throws -> String {
        try Command("sqlite3", "-readonly", "\(device.store)/journal.sqlite", sql).succeed()
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
