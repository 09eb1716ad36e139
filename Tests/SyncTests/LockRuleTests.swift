import Control
import Foundation
import Glibc
import Support
import Synchronization
import Testing

/// The rule `lock=ask`: real programs on the mounts of two people, and a real hub.
@Suite("lock=ask in .concordattributes", .serialized) struct LockRuleTests {
    private static let plan = "dir/plan.txt"

    /// Runs `body` with a device of ann and one of bob.
    ///
    /// - Parameter seconds: How long programs on bob's device wait for an editor.
    private func with(
        waiting seconds: Double = 10_000, rules: String = "plan.txt lock=ask\n*.rtfd lock=ask\n",
        _ body: (Fleet) throws -> Void
    ) throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "mkdir dir; echo old > dir/plan.txt; echo y > other.txt")
            try fleet.put(0, ".concordattributes", rules)
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", "editor")
            try fleet.join(
                as: "bob",
                after: { device in
                    device.options.append("editor_timeout=\(seconds)")
                    try device.remount()
                })
            try fleet.expectEqual()
            try body(fleet)
        }
    }

    private func edit(_ fleet: Fleet, _ path: String = plan) throws -> OpenFile {
        try OpenFile("\(fleet.devices[0].path)/\(path)", O_RDWR)
    }

    /// Starts a program on bob's device that opens a document for writing, prints what it reads,
    /// and keeps the document open.
    private func openLater(_ fleet: Fleet, _ path: String = plan) throws -> Waiting {
        try Waiting(at: "\(fleet.devices[1].path)/\(path)")
    }

    private func who(_ fleet: Fleet, _ index: Int, _ path: String = plan) throws -> [String] {
        let place = try MountedPath(FilePath("\(fleet.devices[index].path)/\(path)"))
        return try ControlClient(socket: place.socket).ask(
            Request(.who, path: place.components), as: WhoReport.self
        ).leases.filter { !$0.here }.map { "\($0.user) \($0.use)" }
    }

    private func expect(
        _ fleet: Fleet, _ index: Int, _ expected: [String], at path: String = plan
    ) throws {
        try wait(for: "device \(index) to know that \(expected) have \(path) open") {
            try who(fleet, index, path) == expected ? true : nil
        }
    }

    /// The events of a device by which it tells that a program did not wait any longer.
    private final class Events: Sendable {
        private let heard = Mutex<[String]>([])

        /// Begins to listen. The connection listens until it is closed.
        func listen(to device: MountedVolume) throws -> CoordinationClient {
            let place = try MountedPath(FilePath(device.path))
            let watcher = try CoordinationClient(socket: place.socket) { push in
                guard let event = push.event, event.kind == .openedAnyway else { return }
                self.heard.withLock {
                    $0.append("\(event.path.text) \(event.user ?? "") \(event.device ?? "")")
                }
            } ended: {
            }
            _ = try watcher.ask(Request(.watch), as: Nothing.self)
            return watcher
        }

        var all: [String] { heard.withLock { $0 } }
    }

    @Test("an open for writing waits until the other has saved and closed, and gets that")
    func waits() throws {
        try with { fleet in
            let document = try edit(fleet)
            try expect(fleet, 1, ["ann edits"])
            let later = try openLater(fleet)
            try expect(fleet, 0, ["bob wants"])
            let locks = try fleet.fsctl(1, "locks", Self.plan)
            #expect(locks.contains("wants to write"), "\(locks)")
            #expect(locks.contains("ann on dev0 edits it there"), "\(locks)")
            // Reading does not wait, and neither do documents without the rule.
            #expect(fleet.text(1, Self.plan) == "old\n")
            try fleet.put(1, "other.txt", "z\n")
            #expect(!later.isOpen)
            try document.truncate(to: 0)
            try document.write("new\n", at: 0)
            document.close()
            try later.awaitOpen()
            #expect(later.text == "new\n")
            try expect(fleet, 0, ["bob edits"])
            try later.end()
            try fleet.settle()
            #expect(try fleet.conflicts(1, Self.plan).isEmpty)
        }
    }

    @Test("Vim, which presents the document, saves it and lets go, although its swap file stays")
    func presenter() throws {
        try with { fleet in
            let terminal = try Terminal(
                vim: [Self.plan], directory: fleet.devices[0].path, options: "directory=.")
            defer { terminal.close() }
            try wait(seconds: 20, for: "Vim to present the document") {
                try fleet.fsctl(0, "locks").contains("  presents ") ? true : nil
            }
            try terminal.press("Escape")
            try terminal.type("Godraft")
            try terminal.press("Escape")
            try terminal.wait(for: "draft")
            try expect(fleet, 1, ["ann edits"])
            let later = try openLater(fleet)
            try later.awaitOpen()
            #expect(later.text == "old\ndraft\n")
            // Vim gets the document back, but its swap file does not count while bob edits.
            try expect(fleet, 0, ["bob edits"])
            try wait(for: "Vim to have the document back") {
                try fleet.fsctl(0, "locks").contains("write") ? nil : true
            }
            try expect(fleet, 1, ["ann shows"])
            try later.end()
            try expect(fleet, 1, ["ann edits"])
            try terminal.type(":qa!")
            try terminal.press("Enter")
            try terminal.waitForEnd()
            try fleet.settle()
            #expect(try fleet.conflicts(1, Self.plan).isEmpty)
        }
    }

    @Test("an interrupted open ends, and wants the document no longer")
    func interrupted() throws {
        try with { fleet in
            let document = try edit(fleet)
            try expect(fleet, 1, ["ann edits"])
            let later = try openLater(fleet)
            try expect(fleet, 0, ["bob wants"])
            later.program.send(SIGINT)
            _ = try later.program.waitForEnd(seconds: 30)
            try expect(fleet, 0, [])
            #expect(!later.isOpen)
            document.close()
        }
    }

    @Test("after its time, or with O_NONBLOCK, an open goes on and says that somebody edits it")
    func goesOn() throws {
        for isPatient in [true, false] {
            try with(waiting: isPatient ? 0.2 : 10_000) { fleet in
                let document = try edit(fleet)
                try expect(fleet, 1, ["ann edits"])
                let events = Events()
                let watcher = try events.listen(to: fleet.devices[1])
                let path = "\(fleet.devices[1].path)/\(Self.plan)"
                let flags = isPatient ? 0 : O_NONBLOCK
                let mine = try OpenFile(path, O_RDWR | flags)
                try wait(for: "the event") { events.all.isEmpty ? nil : true }
                #expect(events.all == ["\(Self.plan) ann dev0"])
                // It is waited for once only: a program that saves again does not wait again.
                try OpenFile(path, O_WRONLY).close()
                #expect(events.all.count == 1)
                watcher.close()
                try mine.write("bob\n", at: 0)
                mine.close()
                try document.write("ann\n", at: 0)
                document.close()
                try fleet.settle()
                let texts = try [fleet.text(0, Self.plan) ?? ""] + fleet.conflicts(0, Self.plan)
                #expect(texts.sorted() == ["ann\n", "bob\n"])
            }
        }
    }

    @Test("nobody waits without the hub, and a wait ends when it is lost")
    func withoutHub() throws {
        try with { fleet in
            let document = try edit(fleet)
            try expect(fleet, 1, ["ann edits"])
            let later = try openLater(fleet)
            try expect(fleet, 0, ["bob wants"])
            try fleet.hub.kill9()
            try later.awaitOpen()
            try later.end()
            let again = try openLater(fleet)
            try again.awaitOpen()
            try again.end()
            document.close()
            try fleet.hub.start()
            try fleet.settle()
        }
    }

    @Test("a package is one document, and its files wait together")
    func package() throws {
        try with { fleet in
            try fleet.shell(0, "mkdir a.rtfd; echo 1 > a.rtfd/one; echo 2 > a.rtfd/two")
            try fleet.expectEqual()
            let document = try edit(fleet, "a.rtfd/one")
            try fleet.put(0, "a.rtfd/two", "3\n")
            try expect(fleet, 1, ["ann edits"], at: "a.rtfd")
            let later = try openLater(fleet, "a.rtfd/two")
            try expect(fleet, 0, ["bob wants"], at: "a.rtfd")
            document.close()
            try later.awaitOpen()
            #expect(later.text == "3\n")
            try later.end()
        }
    }

    @Test("an unmount ends a wait") func unmount() throws {
        try with { fleet in
            let document = try edit(fleet)
            try expect(fleet, 1, ["ann edits"])
            let later = try openLater(fleet)
            try expect(fleet, 0, ["bob wants"])
            try fleet.devices[1].terminate()
            _ = try later.program.waitForEnd(seconds: 30)
            #expect(!later.isOpen)
            document.close()
            try fleet.devices[1].mount()
        }
    }

    @Test("when the holder's daemon is stopped, the other goes on, and both contents live")
    func stopped() throws {
        try with(waiting: 0.2) { fleet in
            let document = try edit(fleet)
            try document.write("ann\n", at: 0)
            try expect(fleet, 1, ["ann edits"])
            try fleet.devices[0].suspend()
            try fleet.put(1, Self.plan, "bob\n")
            try fleet.settle([1])
            fleet.devices[0].resume()
            document.close()
            try fleet.settle()
            let texts = try [fleet.text(0, Self.plan) ?? ""] + fleet.conflicts(0, Self.plan)
            #expect(texts.sorted() == ["ann\n", "bob\n"])
        }
    }
}

/// A program that opens a document for reading and writing, writes what it reads into a file
/// outside, and keeps the document open until it is ended.
private final class Waiting {
    let program: ChildProcess
    private let outside: TemporaryDirectory

    init(at path: String) throws {
        outside = try TemporaryDirectory()
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let script = "exec 3<>\"$1\" && cat <&3 > new && mv new text && exec sleep 1000"
        program = try ChildProcess(
            "bash", ["-c", script, "bash", path], directory: outside.path, input: null,
            output: null, errors: null)
    }

    var text: String? { try? String(contentsOfFile: "\(outside.path)/text", encoding: .utf8) }
    var isOpen: Bool { text != nil }

    func awaitOpen() throws { try wait(for: "the open") { isOpen ? true : nil } }

    func end() throws {
        program.killGroup()
        _ = try program.waitForEnd(seconds: 30)
    }
}
