import Control
import Foundation
import Glibc
import Support
import Synchronization
import Testing

/// Who has a document open on another device: real programs, a real hub and real mounts of two
/// people.
@Suite("Open elsewhere", .serialized) struct OpenElsewhereTests {
    /// Runs `body` with a device of ann and one of bob, and the hub's clock.
    private func with(_ role: String, _ body: (Fleet, ShiftedClock) throws -> Void) throws {
        let clock = try ShiftedClock()
        let hub = try HubProcess(environment: clock.environment)
        try Fleet.with(1, hub: hub) { fleet in
            try fleet.shell(0, "mkdir dir; echo x > dir/plan.txt; echo y > other.txt")
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", role)
            try fleet.join(as: "bob")
            try fleet.expectEqual()
            try body(fleet, clock)
        }
    }

    /// A program that holds a document until it is killed.
    private func program(_ fleet: Fleet, _ index: Int, _ words: [String]) throws -> ChildProcess {
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        return try ChildProcess(
            words[0], Array(words.dropFirst()), directory: fleet.devices[index].path, input: null,
            output: null, errors: null)
    }

    private static let holding = ["bash", "-c", "exec 3<>dir/plan.txt; exec sleep 1000"]

    private func who(_ fleet: Fleet, _ index: Int, _ path: String) throws -> [WhoReport.Lease] {
        let place = try MountedPath(FilePath("\(fleet.devices[index].path)/\(path)"))
        return try ControlClient(socket: place.socket).ask(
            Request(.who, path: place.components), as: WhoReport.self
        ).leases
    }

    /// Waits until a device knows this of others: `user use`.
    private func expect(
        _ fleet: Fleet, _ index: Int, _ expected: [String], at path: String = "dir/plan.txt"
    ) throws {
        try wait(for: "device \(index) to know that \(expected) have \(path) open") {
            let found = try who(fleet, index, path).filter { !$0.here }.map {
                "\($0.user) \($0.use)"
            }
            return found == expected ? true : nil
        }
    }

    @Test("others see who has a document open, until it is closed or its program is killed")
    func programs() throws {
        try with("editor") { fleet, _ in
            let place = try MountedPath(FilePath(fleet.devices[1].path))
            let events = Mutex<[WatchEvent]>([])
            let watcher = try CoordinationClient(socket: place.socket) { push in
                if let event = push.event { events.withLock { $0.append(event) } }
            } ended: {
            }
            _ = try watcher.ask(Request(.watch), as: Nothing.self)
            try expect(fleet, 1, [])
            let file = open("\(fleet.devices[0].path)/dir/plan.txt", O_RDWR | O_CLOEXEC)
            #expect(file >= 0)
            try expect(fleet, 1, ["ann edits"])
            try expect(fleet, 1, ["ann edits"], at: "dir")
            #expect(try who(fleet, 1, "other.txt").isEmpty)
            let table = try fleet.fsctl(1, "who", "dir/plan.txt")
            #expect(table.contains("ann") && table.contains("dev0"), "\(table)")
            let status = try fleet.fsctl(1, "status", "dir/plan.txt")
            #expect(status.contains("ann on dev0 edits it"), "\(status)")
            let locks = try fleet.fsctl(1, "locks")
            #expect(locks.contains("On other devices") && locks.contains("dev0"), "\(locks)")
            let value = try fleet.attempt(
                1, "getfattr --only-values -n user.concord.who dir/plan.txt")
            #expect(value.output == "edits\tann\tdev0", "\(value)")
            // The holder itself knows that it is known.
            #expect(try who(fleet, 0, "dir/plan.txt").map(\.here) == [true])
            close(file)
            try expect(fleet, 1, [])
            let none = try fleet.attempt(1, "getfattr -n user.concord.who dir/plan.txt")
            #expect(none.status != 0)
            let holder = try program(fleet, 0, Self.holding)
            try expect(fleet, 1, ["ann edits"])
            holder.send(SIGKILL)
            _ = try holder.waitForEnd(seconds: 30)
            try expect(fleet, 1, [])
            let claim = try program(
                fleet, 0,
                [Programs.fsctl, "coordinate", "write", "other.txt", "--", "sleep", "1000"])
            try expect(fleet, 1, ["ann edits"], at: "other.txt")
            claim.killGroup()
            try expect(fleet, 1, [], at: "other.txt")
            let kinds = events.withLock { $0.filter { $0.device == "dev0" } }.map {
                "\($0.kind.rawValue) \($0.path.text)"
            }
            let plan = ["openedElsewhere dir/plan.txt", "closedElsewhere dir/plan.txt"]
            #expect(
                kinds == plan + plan
                    + ["openedElsewhere other.txt", "closedElsewhere other.txt"], "\(kinds)")
            watcher.close()
        }
    }

    @Test("when a daemon is killed, its leases end with their time") func killedDaemon() throws {
        try with("reader") { fleet, clock in
            let holder = try program(fleet, 0, Self.holding)
            try expect(fleet, 1, ["ann edits"])
            try fleet.devices[0].kill9()
            holder.killGroup()
            #expect(try who(fleet, 1, "dir/plan.txt").count == 1)
            // The wall clock does not matter.
            clock.ahead = 86_400
            #expect(try who(fleet, 1, "dir/plan.txt").count == 1)
            clock.suspended = 61
            try expect(fleet, 1, [])
            clock.ahead = 0
            try fleet.devices[0].mount()
            let again = try program(fleet, 0, Self.holding)
            try expect(fleet, 1, ["ann edits"])
            // A member who is removed sees no more, and a clean end needs no time.
            try fleet.devices[1].remount()
            try expect(fleet, 1, ["ann edits"])
            again.killGroup()
            _ = try again.waitForEnd(seconds: 30)
            try expect(fleet, 1, [])
        }
    }

    @Test("a hub that was restarted is told again, and a device that has signed out is forgotten")
    func restartedHub() throws {
        try with("editor") { fleet, _ in
            let holder = try program(fleet, 1, Self.holding)
            try expect(fleet, 0, ["bob edits"])
            try fleet.hub.kill9()
            try fleet.hub.start()
            try expect(fleet, 0, ["bob edits"])
            try fleet.fsctl(0, "members", "remove", "bob")
            try expect(fleet, 0, [])
            holder.killGroup()
            _ = try holder.waitForEnd(seconds: 30)
        }
    }
}
