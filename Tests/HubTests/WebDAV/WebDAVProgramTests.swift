import Foundation
import Glibc
import Support
import Testing

/// Other people's programs that use WebDAV, with a hub that is a process.
struct WebDAVProgramTests {
    private static func path(_ name: String) -> String? {
        ["/usr/bin/", "/usr/local/bin/", "/usr/sbin/"].map { $0 + name }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// A hub with a volume, and a password for it.
    private func hub() async throws -> (hub: Support.HubProcess, password: String) {
        let hub = try Support.HubProcess(arguments: ["--webdav", "on"])
        let code = try hub.invite()
        _ = try await TestDevice(url: hub.address, code: code, volume: "Docs")
        let lines = try hub.run("password", "ann", "--name", "Phone").split(separator: "\n")
        #expect(try hub.run("devices").contains("\tPhone\n"))
        return (hub, String(lines.last ?? ""))
    }

    @Test(
        "litmus finds no fault",
        .enabled(if: path("litmus") != nil, "litmus is not installed"))
    func litmus() async throws {
        let (hub, password) = try await hub()
        let scratch = try TemporaryDirectory("litmus")
        var command = Command(
            try #require(Self.path("litmus")),
            arguments: ["-k", "\(hub.address)/dav/Docs/", "ann", password])
        // It writes a log into its directory.
        command.directory = scratch.path
        let result = try command.run()
        #expect(result.status == 0, "\(result.output)\(result.errors)")
        for suite in ["basic", "copymove", "props", "locks", "http"] {
            #expect(result.output.contains("summary for `\(suite)'"))
        }
        let summaries = result.output.split(separator: "\n").filter { $0.contains("summary for") }
        #expect(summaries.allSatisfy { $0.contains(" 0 failed") }, "\(summaries)")
        #expect(!result.output.contains("WARNING"), "\(result.output)")
        #expect(!result.output.contains("SKIPPED"), "\(result.output)")
        try hub.check()
        try hub.stop()
    }

    @Test(
        "rclone copies a folder there and back",
        .enabled(if: path("rclone") != nil, "rclone is not installed"))
    func rclone() async throws {
        let (hub, password) = try await hub()
        let scratch = try TemporaryDirectory("rclone")
        let program = try #require(Self.path("rclone"))
        let obscured = try Command(program, "obscure", password).succeed()
        let environment = [
            "RCLONE_CONFIG": scratch.path + "/config", "RCLONE_CONFIG_HUB_TYPE": "webdav",
            "RCLONE_CONFIG_HUB_URL": "\(hub.address)/dav/Docs", "RCLONE_CONFIG_HUB_VENDOR": "other",
            "RCLONE_CONFIG_HUB_USER": "ann",
            "RCLONE_CONFIG_HUB_PASS": obscured.trimmingCharacters(in: .whitespacesAndNewlines),
        ]
        func run(_ words: String...) throws -> Command.Result {
            var command = Command(program, arguments: words)
            command.environment = environment
            return try command.run()
        }
        let (from, back) = (scratch.path + "/from", scratch.path + "/back")
        var random = SeededRandom(named: "rclone")
        for folder in ["", "/a b", "/a b/é & <c>"] {
            try FileManager.default.createDirectory(
                atPath: from + folder, withIntermediateDirectories: true)
            for (name, size) in [("empty", 0), ("%41 #1?.txt", 1000), ("large.bin", 3 << 20)] {
                let data = Data((0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) })
                try data.write(to: URL(filePath: from + folder + "/" + name))
            }
        }
        for (target, source) in [("hub:copy", from), (back, "hub:copy")] {
            let result = try run("copy", source, target)
            #expect(result.status == 0, "\(result.errors)")
        }
        let difference = try Command("/usr/bin/diff", "-r", from, back).run()
        #expect(difference.status == 0, "\(difference.output)")
        try FileManager.default.removeItem(atPath: from + "/a b/empty")
        #expect(try run("sync", from, "hub:copy").status == 0)
        #expect(try run("moveto", "hub:copy/large.bin", "hub:copy/moved").status == 0)
        #expect(try run("lsf", "hub:copy/a b").output == "%41 #1?.txt\nlarge.bin\né & <c>/\n")
        #expect(
            try run("cat", "hub:copy/moved", "--offset", "100", "--count", "5").output.utf8.count
                > 0)
        #expect(try run("purge", "hub:copy").status == 0)
        try hub.check()
        try hub.stop()
    }

    /// As Word saves: it locks and writes a temporary document, moves the old one away, and gives
    /// the new one its name.
    @Test(
        "programs save on a mount of davfs2",
        .enabled(
            if: path("mount.davfs") != nil && geteuid() == 0,
            "davfs2 is not installed, or may not be mounted"))
    func davfs2() async throws {
        let (hub, password) = try await hub()
        let scratch = try TemporaryDirectory("davfs2")
        let (mount, cache) = (scratch.path + "/mount", "/var/cache/davfs2")
        try FileManager.default.createDirectory(
            atPath: mount, withIntermediateDirectories: false)
        let url = "\(hub.address)/dav/Docs"
        let secrets = scratch.path + "/secrets"
        try Data("\(url) ann \(password)\n".utf8).write(to: URL(filePath: secrets))
        chmod(secrets, 0o600)
        let settings = scratch.path + "/settings"
        try Data("secrets \(secrets)\nask_auth 0\ndelay_upload 0\n".utf8).write(
            to: URL(filePath: settings))
        let program = try #require(Self.path("mount.davfs"))
        try Command(program, url, mount, "-o", "conf=\(settings)").succeed()
        defer {
            _ = try? Command("/bin/umount", mount).run()
            let name = mount.replacing("/", with: "-").dropFirst()
            for entry in (try? FileManager.default.contentsOfDirectory(atPath: cache)) ?? []
            where entry.contains(name) {
                try? FileManager.default.removeItem(atPath: cache + "/" + entry)
            }
        }
        let script = """
            set -e; cd \(mount); echo one > a.docx; echo two > '~WRD1.tmp'
            mv a.docx '~WRL2.tmp'; mv '~WRD1.tmp' a.docx; rm '~WRL2.tmp'
            mkdir 'b c'; cp /bin/sh 'b c/é'; cmp /bin/sh 'b c/é'; echo three >> a.docx
            """
        try Command("/bin/sh", "-c", script).succeed()
        // All is sent when it is unmounted.
        try Command("/bin/umount", mount).succeed()
        let client = DAVClient(url: hub.address, user: "ann", password: password)
        #expect(try await client.send("GET", "/dav/Docs/a.docx").text == "two\nthree\n")
        let list = try await client.list("/dav/Docs/")
        #expect(Set(list.addresses) == ["/dav/Docs/", "/dav/Docs/a.docx", "/dav/Docs/b c/"])
        let shell = try Data(contentsOf: URL(filePath: "/bin/sh"))
        #expect(try await client.send("GET", "/dav/Docs/b%20c/%C3%A9").bytes == Array(shell))
        #expect(!list.text.contains("activelock"), "all locks have ended")
        try hub.check()
        try hub.stop()
    }

    @Test("passwords are made for users that exist, with names that can be shown")
    func passwords() throws {
        let hub = try Support.HubProcess(arguments: ["--webdav", "on"])
        let lines = try hub.run("password", "ann").split(separator: "\n")
        #expect(lines.count == 2 && lines[0].contains("WebDAV as the user ann"))
        #expect(lines[1].wholeMatch(of: /(\w{5}-){4}\w{5}/) != nil)
        for words in [["nobody"], ["ann", "--name", ""], ["ann", "--name", "a\nb"]] {
            let result = try hub.attempt(["password"] + words)
            #expect(result.status != 0 && !result.errors.isEmpty && result.output.isEmpty)
        }
        #expect(try hub.run("devices").split(separator: "\n").count == 1)
        try hub.stop()
    }

    @Test("a hub answers WebDAV only if it is told to")
    func off() async throws {
        let hub = try Support.HubProcess()
        let client = DAVClient(url: hub.address, user: "ann", password: "x")
        #expect(try await client.status("OPTIONS", "/dav/") == 404)
        #expect(try await client.status("PROPFIND", "/dav/") == 404)
        try hub.stop()
    }
}
