import Foundation
import Support
import Testing

/// `concord setup`, answered by the lines of standard input.
@Suite("Setup") struct SetupTests {
    /// A home directory in which nothing is mounted at first.
    private final class Home {
        let directory: TemporaryDirectory

        init() throws { directory = try TemporaryDirectory("home") }

        deinit { try? unmount() }

        var folder: String { directory.path + "/Concord" }

        /// No user manager of systemd can be reached.
        private var environment: [String: String] {
            let names = [
                "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
            ]
            return ["HOME": directory.path].merging(names.map { ($0, "") }) { $1 }
        }

        func setUp(_ answers: String...) throws -> Command.Result {
            var command = Command(Programs.path("concord"), "setup")
            command.input = Data(answers.map { $0 + "\n" }.joined().utf8)
            command.environment = environment
            return try command.run()
        }

        /// What the desktop runs at a login.
        func logIn() throws {
            let file = directory.path + "/.config/autostart/concord-Concord.desktop"
            let entry = try String(contentsOfFile: file, encoding: .utf8)
            let line = try #require(entry.split(separator: "\n").first { $0.hasPrefix("Exec=") })
            var login = Command("/bin/sh", "-ec", String(line.dropFirst("Exec=".count)))
            login.environment = environment
            try login.succeed()
        }

        func unmount() throws { try Command(Programs.path("concord"), "unmount", folder).succeed() }
    }

    @Test("three questions lead to a mounted volume that is signed in and mounted at each login")
    func threeQuestions() throws {
        let hub = try HubProcess()
        let home = try Home()
        let first = try home.setUp("", hub.address, try hub.invite("ann"), "", "")
        #expect(first.status == 0, "\(first.output)\(first.errors)")
        #expect(first.output.contains("signed in to") && first.output.contains("as ann"))
        try Data("text".utf8).write(to: URL(filePath: home.folder + "/a.txt"))
        try Programs.fsctl("wait", "--durable", "hub", home.folder + "/a.txt").succeed()
        // Said again, it changes nothing.
        let second = try home.setUp("", hub.address, "code", "")
        #expect(second.status == 0, "\(second.output)\(second.errors)")
        #expect(second.output.contains("is mounted already"))
        #expect(second.output.contains("signed in to") && second.output.contains("already"))
        try home.unmount()
        try home.logIn()
        #expect(try String(contentsOfFile: home.folder + "/a.txt", encoding: .utf8) == "text")
        try home.unmount()
        try hub.stop()
    }

    @Test("a volume without a hub, and answers that cannot be used")
    func answers() throws {
        let hub = try HubProcess()
        let home = try Home()
        #expect(try home.setUp().status == 12)
        let used = home.directory.path + "/used"
        try FileManager.default.createDirectory(
            atPath: used + "/inner", withIntermediateDirectories: true)
        let full = try home.setUp(used, "", "no")
        #expect(full.status == 5 && full.errors.contains("is not empty"))
        let codeless = try home.setUp("", hub.address, "", "", "no")
        #expect(codeless.status == 5 && codeless.errors.contains("needs a code"))
        #expect(!FileManager.default.fileExists(atPath: home.folder))
        let local = try home.setUp("~/Concord", "", "no")
        #expect(local.status == 0, "\(local.output)\(local.errors)")
        #expect(!FileManager.default.fileExists(atPath: home.directory.path + "/.config"))
        let inside = try home.setUp(home.folder + "/inside", "", "no")
        #expect(inside.status == 5 && inside.errors.contains("is inside of the volume"))
        // The code is wrong; the volume is mounted, and the command can be said again.
        let wrong = try home.setUp("", hub.address, "wrong", "")
        #expect(wrong.status != 0 && wrong.errors.contains("concord setup again"))
        let right = try home.setUp("", hub.address, try hub.invite("ann"), "")
        #expect(right.status == 0, "\(right.output)\(right.errors)")
        try home.unmount()
        try hub.stop()
    }
}
