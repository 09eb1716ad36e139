import Foundation
import Glibc
import Support
import Testing

@testable import chaos

@Suite("A hub that is stopped") struct StoppedHubTests {
    /// Another process keeps the ledger locked, as the stopped hub does if it is within a
    /// transaction.
    @Test("may keep the ledger locked, and a command then asks to try again")
    func quota() throws {
        let history = try History()
        let world = try World(devices: 0, history: history)
        defer { world.end() }
        let (lock, input, output) = (Process(), Pipe(), Pipe())
        lock.executableURL = URL(filePath: "/usr/bin/sqlite3")
        lock.arguments = ["\(world.hub.data)/ledger.sqlite"]
        (lock.standardInput, lock.standardOutput) = (input, output)
        try lock.run()
        defer {
            try? input.fileHandleForWriting.close()
            lock.waitUntilExit()
        }
        try input.fileHandleForWriting.write(
            contentsOf: Data("BEGIN IMMEDIATE; SELECT 'locked';\n".utf8))
        _ = output.fileHandleForReading.availableData
        world.apply(Action(1, at: 0, "hub", .stop))
        world.apply(Action(2, at: 0, "hub", .quota(bytes: 1)))
        #expect(history.events(ofRound: 0).filter { $0.kind == .died }.map(\.detail) == [])
        world.apply(Action(3, at: 0, "hub", .go))
        world.apply(Action(4, at: 0, "hub", .quota(bytes: 1)))
        #expect(history.events(ofRound: 0).filter { $0.kind == .died }.count == 1)
    }
}
