import Journal
import Model
import Synchronization
import Testing

@testable import Volume

/// A wrong wall clock removes no versions.
@Suite struct RetentionTests {
    private static let day = Timestamp.span(seconds: 86_400)
    private let program = Program(process: 1)

    /// The clocks of a machine, set by the test.
    final class Machine: Sendable {
        private struct State {
            var wall = MachineClocks().wall()
            var uptime = Timestamp.span(seconds: 1000)
            var boot = 1
        }
        private let state = Mutex(State())

        var clocks: MachineClocks {
            var clocks = MachineClocks()
            clocks.wall = { self.state.withLock { $0.wall } }
            clocks.uptime = { self.state.withLock { $0.uptime } }
            clocks.boot = { self.state.withLock { "boot-\($0.boot)" } }
            return clocks
        }

        var settings: Settings {
            var settings = ProgramTree.fast
            settings.clocks = clocks
            return settings
        }

        func setWallClock(by span: Int64) { state.withLock { $0.wall += span } }

        func live(_ span: Int64) {
            state.withLock {
                $0.wall += span
                $0.uptime += span
            }
        }

        func restart(after span: Int64) {
            state.withLock {
                $0.wall += span
                $0.uptime = Timestamp.span(seconds: 20)
                $0.boot += 1
            }
        }
    }

    /// Five versions of one document, and three of a deleted one.
    private func makeTree(_ machine: Machine) throws -> ProgramTree {
        let tree = try ProgramTree(settings: machine.settings)
        #expect(tree.quiet())
        _ = try tree.thin()
        for text in ["1", "2", "3", "4", "5"] {
            try tree.save("a.txt", text, by: program)
            if text < "4" { try tree.save("gone.txt", text, by: program) }
            #expect(tree.quiet())
        }
        try tree.unlink("gone.txt", by: program)
        #expect(tree.quiet())
        _ = try tree.thin()
        return tree
    }

    private func expectAll(_ tree: ProgramTree) throws {
        #expect(try tree.thin() == 0)
        #expect(try tree.texts("a.txt") == ["1", "2", "3", "4", "5"])
        #expect(try tree.texts("gone.txt") == ["1", "2", "3"])
    }

    @Test(
        "a wall clock that jumps thins nothing",
        arguments: [[366], [40_000], [-366], [-20_000, 20_000], [366, -366, 366], [-1, 92]])
    func jumps(days: [Int64]) throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        for span in days {
            machine.setWallClock(by: span * RetentionTests.day)
            try expectAll(tree)
            try tree.remount()
            #expect(tree.quiet())
            try expectAll(tree)
            machine.restart(after: span == days.last ? 0 : RetentionTests.day / 100)
            try tree.remount()
            #expect(tree.quiet())
            try expectAll(tree)
        }
        try tree.checkInvariants()
    }

    @Test("a wall clock that is set ahead and stays so thins nothing of this day")
    func staysAhead() throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        machine.setWallClock(by: 366 * RetentionTests.day)
        try expectAll(tree)
        machine.live(RetentionTests.day / 2)
        try expectAll(tree)
        machine.restart(after: RetentionTests.day / 100)
        try tree.remount()
        #expect(tree.quiet())
        machine.live(RetentionTests.day / 3)
        try expectAll(tree)
        machine.live(80 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.texts("gone.txt").count > 0, "not 90 days old")
        machine.live(11 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.volume.history.document(at: names("gone.txt")) == nil)
    }

    @Test("a hub's clock that jumps ahead thins nothing", arguments: [false, true])
    func hubAhead(stays: Bool) throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        let wrong = 366 * RetentionTests.day
        tree.volume.retention.hear(hubTime: machine.clocks.wall() + (stays ? 0 : wrong))
        try expectAll(tree)
        for _ in 0..<5 {
            machine.live(RetentionTests.day / 10)
            tree.volume.retention.hear(hubTime: machine.clocks.wall() + (stays ? wrong : 0))
            try expectAll(tree)
        }
    }

    /// The documents are saved with a wall clock twenty years behind the one by which they would be
    /// thinned.
    @Test("a version saved while the clock was far behind is not old when the clock is corrected")
    func behind() throws {
        let machine = Machine()
        machine.setWallClock(by: 20 * 365 * RetentionTests.day)
        let tree = try makeTree(machine)
        try expectAll(tree)
        machine.live(RetentionTests.day / 2)
        try expectAll(tree)
    }

    @Test("versions age by the time that has really passed")
    func ageing() throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        machine.live(RetentionTests.day / 2)
        try expectAll(tree)
        machine.live(RetentionTests.day)
        #expect(try tree.thin() > 0)
        // The current version stays, and the last one of each hour before.
        let left = try tree.texts("a.txt")
        #expect(left.count <= 3 && left.last == "5")
        machine.live(91 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.volume.history.document(at: names("gone.txt")) == nil)
        #expect(try tree.texts("a.txt").last == "5")
        try tree.checkInvariants()
    }

    @Test("the clock keeps up on a device that is off most of the day or was off for long")
    func off() throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        for _ in 0..<4 {
            machine.restart(after: RetentionTests.day * 2 / 3)
            machine.live(RetentionTests.day / 3)
            _ = try tree.thin()
        }
        #expect(try tree.texts("a.txt").count <= 3)
        machine.restart(after: 120 * RetentionTests.day)
        machine.live(RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.texts("gone.txt").count > 0)
        machine.live(45 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.volume.history.document(at: names("gone.txt")) == nil)
    }

    @Test("the hub's clock has priority over this machine's")
    func hub() throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        let time = machine.clocks.wall()
        machine.setWallClock(by: 366 * RetentionTests.day)
        tree.volume.retention.hear(hubTime: time)
        // By the machine's own clock, half a year would have passed.
        machine.live(45 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.texts("gone.txt").last == "3")
        machine.live(46 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.volume.history.document(at: names("gone.txt")) == nil)
    }

    @Test(
        "versions that the hub does not know stay",
        arguments: ["unsent", "in the outbox", "underway", "refused"])
    func untold(state: String) throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        let id = try #require(try tree.volume.history.document(at: names("gone.txt"))).id
        let key = try #require(try tree.volume.journal.read { try $0.item(id: id) }).key
        try tree.volume.recorder.perform { _, t in
            switch state {
            case "unsent": try t.addUnsent(key)
            case "in the outbox": try t.append(OutboxRow(number: 1, item: id, operation: [1]))
            case "underway": try t.set(MirrorRow(id: id, base: [1], state: .underway))
            default: try t.set(MirrorRow(id: id, base: [1], state: .refused))
            }
        }
        machine.live(100 * RetentionTests.day)
        _ = try tree.thin()
        #expect(try tree.texts("gone.txt").last == "3")
        try tree.volume.recorder.perform { _, t in
            try t.removeUnsent(key)
            try t.removeOutbox(upTo: 1)
            try t.removeMirror(id)
        }
        _ = try tree.thin()
        #expect(try tree.volume.history.document(at: names("gone.txt")) == nil)
    }

    @Test("the version that a conflict was made from stays")
    func conflict() throws {
        let machine = Machine()
        let tree = try makeTree(machine)
        let versions = try #require(try tree.volume.history.document(at: names("a.txt"))).versions
        try tree.volume.recorder.perform { _, t in try t.setKind(versions[2].id, .conflict) }
        machine.live(2 * RetentionTests.day)
        _ = try tree.thin()
        let left = try tree.texts("a.txt")
        #expect(left.contains("2") && left.contains("3"))
    }

    @Test("one run removes only a part of many versions")
    func bounded() throws {
        let machine = Machine()
        let tree = try ProgramTree(settings: machine.settings)
        for index in 0..<300 { try tree.save("\(index)", "\(index)", by: program) }
        #expect(tree.quiet())
        for index in 0..<300 { try tree.unlink("\(index)", by: program) }
        #expect(tree.quiet())
        _ = try tree.thin()
        machine.live(91 * RetentionTests.day)
        #expect(try tree.thin() == 256)
        #expect(try tree.thin() == 44)
        #expect(try tree.thin() == 0)
    }

    @Test("the clock's text is complete, and stays short after years")
    func text() throws {
        var clock = RetentionClock(time: 0, boot: "b", uptime: 0, lastRow: 3)
        for hour in 1...20_000 {
            let time = Timestamp.span(seconds: 3600 * hour)
            _ = clock.follow(hub: nil, wall: time, boot: "b", uptime: time)
            clock.mark(lastRow: Int64(hour))
        }
        #expect(RetentionClock(text: clock.text) == clock)
        // A text of an older build.
        #expect(RetentionClock(text: "1 b 2 1:2") != nil)
        #expect(clock.text.utf8.count < 10_000)
        #expect(clock.earliest(ofRow: 3) == nil && clock.earliest(ofRow: 0) == nil)
        let hour = Timestamp.span(seconds: 3600)
        #expect(clock.earliest(ofRow: 19_999) == 19_998 * hour)
        #expect(clock.earliest(ofRow: 20_001) == 20_000 * hour)
        let texts = ["", "1 b", "1 b 2 ", "x b 2 1:2", "1 b 2 1:", "1 b 2 1:2 3", "1 b 2 1:2 3 x"]
        for damaged in texts {
            #expect(RetentionClock(text: damaged) == nil)
        }
    }
}

private final class Outcome: Sendable {
    let result = Mutex<Result<Int, VolumeError>?>(nil)
}

extension ProgramTree {
    /// Thins now, and returns the number of removed versions.
    func thin() throws -> Int {
        let recorder = volume.recorder
        let outcome = Outcome()
        recorder.signal.change {
            recorder.tasks.append { recorder in
                let result = Result { () throws(VolumeError) in
                    try recorder.retention.thinning.thinVersions()
                }
                outcome.result.withLock { $0 = result }
            }
        }
        #expect(quiet())
        return try #require(outcome.result.withLock { $0 }).get()
    }
}
