import Foundation
import Glibc
import Support
import Testing

/// What the desktop is told, on a private session bus with a simulated desktop.
@Suite("The desktop is told about conflicts", .serialized) struct NoticeTests {
    @Test("one notification on each device, that names them and closes when all are settled")
    func notified() throws {
        let home = try TemporaryDirectory("bus")
        let bus = try ChildProcess(
            "/usr/bin/dbus-daemon",
            ["--session", "--nofork", "--address=unix:path=\(home.path)/s"],
            input: null, output: null, errors: null)
        defer { bus.killGroup() }
        try wait(for: "the bus") { access("\(home.path)/s", F_OK) == 0 ? true : nil }
        setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=\(home.path)/s", 1)
        defer { unsetenv("DBUS_SESSION_BUS_ADDRESS") }
        let log = open("\(home.path)/said", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(log) }
        let desktop = try ChildProcess(
            "/usr/bin/python3",
            ["-u", "-m", "dbusmock", "--session", "--template", "notification_daemon"],
            input: null, output: log, errors: log)
        defer { desktop.killGroup() }
        try wait(for: "the desktop") {
            let names = try Command(
                "gdbus", "call", "--session", "--dest", "org.freedesktop.DBus", "--object-path",
                "/org/freedesktop/DBus", "--method", "org.freedesktop.DBus.ListNames"
            ).succeed()
            return names.contains("org.freedesktop.Notifications") ? true : nil
        }
        let said = { (try? String(contentsOfFile: "\(home.path)/said", encoding: .utf8)) ?? "" }
        let count = { (text: String) in said().components(separatedBy: text).count - 1 }
        try Fleet.with(2) { fleet in
            let names = ["Anna's \"letter\".txt", "-o.txt"]
            for name in names { try fleet.conflict(name) }
            try wait(for: "both to be told of both; said: \(said())") {
                count("2 documents were edited twice at once") >= 2 ? true : nil
            }
            #expect(names.allSatisfy { said().contains($0) })
            #expect(!said().contains("CloseNotification"))
            try fleet.shell(0, "rm -f .conflicts/*/*")
            try wait(for: "both to be closed; said: \(said())") {
                count("CloseNotification") >= 2 ? true : nil
            }
        }
    }

    private let null = open("/dev/null", O_RDWR | O_CLOEXEC)
}
