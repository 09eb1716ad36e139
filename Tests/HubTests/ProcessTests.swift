import Foundation
import Glibc
import Hub
import HubProtocol
import Model
import Support
import Testing

/// `concord hub` as a process.
final class HubProcess {
    let data: String
    private let child: ChildProcess
    let url: String

    init(data: String, listen: String = "127.0.0.1:0", _ arguments: [String] = []) throws {
        self.data = data
        let output = data + ".output"
        try Data().write(to: URL(filePath: output))
        let file = try FileHandle(forUpdating: URL(filePath: output))
        let null = FileHandle.nullDevice
        child = try ChildProcess(
            Programs.concord, ["hub", "--data", data, "--listen", listen] + arguments,
            input: null.fileDescriptor, output: file.fileDescriptor,
            errors: null.fileDescriptor)
        let child = self.child
        do {
            url = try wait(seconds: 20, for: "the hub to listen") { () -> String? in
                if child.hasEnded() { throw SupportError("the hub ended") }
                let text = try String(contentsOfFile: output, encoding: .utf8)
                guard let at = text.range(of: "http"), text.hasSuffix("\n") else { return nil }
                return String(text[at.lowerBound...].dropLast())
            }
        } catch {
            child.killGroup()
            throw error
        }
    }

    func send(_ signal: Int32) { child.send(signal) }

    func kill() throws {
        child.send(SIGKILL)
        _ = try child.waitForEnd(seconds: 20)
    }

    /// Stops the hub and returns its exit status.
    func stop() throws -> Int32 {
        child.send(SIGTERM)
        return try child.waitForEnd(seconds: 20)
    }

    /// Waits until the hub ends by itself, and returns its exit status.
    func end() throws -> Int32 { try child.waitForEnd(seconds: 20) }

    deinit { child.killGroup() }

    func hub(_ arguments: String...) -> Command {
        Command(Programs.concord, arguments: ["hub"] + arguments + ["--data", data])
    }
}

struct ProcessTests {
    @Test func commandsWorkWhileTheHubRuns() async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try HubProcess(data: scratch.path + "/data")
        #expect(try hub.hub("user", "list").succeed() == "")
        try hub.hub("user", "add", "anna", "--quota", "1000").succeed()
        #expect(try hub.hub("user", "add", "anna").run().status == 5)
        #expect(try hub.hub("user", "list").succeed() == "anna\t0\t1000\n")
        let output = try hub.hub("invite", "anna").succeed()
        let code = String(try #require(output.split(separator: "\n").last))
        #expect(try hub.hub("invite", "nobody").run().status == 3)
        var device = try await TestDevice(url: hub.url, code: code, volume: "Documents")
        try await device.save("a", bytes("a"))
        let devices = try hub.hub("devices").succeed()
        #expect(devices.hasPrefix("\(device.id)\tanna\t") && devices.hasSuffix("device\n"))
        #expect(try hub.hub("check").succeed().contains("sound: 1 volumes, 1 items, 1 versions"))
        let collected = try hub.hub("gc", "--grace", "0").succeed()
        #expect(collected.contains("condemned 0 chunks"))
        try hub.hub("backup", scratch.path + "/backup").succeed()
        #expect(try hub.hub("backup", scratch.path + "/backup").run().status == 5)
        #expect(try hub.hub("user", "remove", "anna").run().status == 5)
        let second = try Command(
            Programs.concord, "hub", "--data", hub.data, "--listen", "127.0.0.1:0"
        ).run()
        #expect(second.status == 4 && second.errors.contains("A hub is running"))
        try hub.hub("restored").succeed()
        let epoch = try await failure { [device] in try await device.changes() }
        #expect(epoch.code == .volumeEpoch)
        try hub.hub("revoke", String(device.id.description.prefix(8))).succeed()
        let out = try await failure { [device] in try await device.changes() }
        #expect(out.code == .unauthenticated)
        try hub.hub("user", "remove", "anna", "--with-volumes").succeed()
        #expect(try hub.stop() == 0)
        #expect(try hub.hub("check").succeed().contains("sound: 0 volumes"))
        #expect(try hub.hub("gc", "--grace", "0").run().status == 0)
    }

    @Test("a quota is shown, changed and taken away while the hub runs")
    func quota() async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try HubProcess(data: scratch.path + "/data")
        try hub.hub("user", "add", "anna", "--quota", "1k").succeed()
        #expect(try hub.hub("user", "list").succeed() == "anna\t0\t1000\n")
        let code = try #require(
            try hub.hub("invite", "anna").succeed().split(separator: "\n").last)
        var device = try await TestDevice(url: hub.url, code: String(code), volume: "Documents")
        let large = [UInt8](repeating: 1, count: 2000)
        #expect(try await device.save("a", large).refusal?.code == .quota)
        let more = try hub.hub("user", "quota", "anna", "2M").succeed()
        #expect(more == "concord: anna has 0 of 2000000 bytes\n")
        #expect(try await device.save("b", large).verdict == .applied)
        let said = try hub.hub("user", "quota", "anna").succeed()
        #expect(said.contains(/anna has 2\d\d\d of 2000000 bytes/), "\(said)")
        let less = try hub.hub("user", "quota", "anna", "0").succeed()
        #expect(less.contains(/has 2\d\d\d of 0 bytes/) && less.contains("more than the quota"))
        #expect(try await device.save("c", [2]).refusal?.code == .quota)
        let none = try hub.hub("user", "quota", "anna", "none").succeed()
        #expect(none.contains(/anna has 2\d\d\d bytes, without a limit/), "\(none)")
        #expect(try await device.save("d", large + [3]).verdict == .applied)
        for wrong in ["much", "-1", "99999999T", ""] {
            let refused = try hub.hub("user", "quota", "anna", "--", wrong).run()
            #expect(refused.status != 0, "\(wrong)")
        }
        let nobody = try hub.hub("user", "quota", "nobody", "1G").run()
        #expect(nobody.status == 3 && nobody.errors.contains("no user nobody"))
        #expect(try hub.stop() == 0)
    }

    @Test func commandsSayWhatIsWrong() throws {
        let scratch = try TemporaryDirectory("hub")
        for command in ["check", "devices", "restored", "gc"] {
            let result = try Command(
                Programs.concord, "hub", command, "--data", scratch.path + "/none"
            ).run()
            #expect(result.status == 3, "\(command): \(result.errors)")
        }
        let bad = try Command(
            Programs.concord, "hub", "--data", scratch.path, "--listen", "nowhere"
        ).run()
        #expect(bad.status == 2)
        let tls = try Command(
            Programs.concord, "hub", "--data", scratch.path, "--listen", "127.0.0.1:0",
            "--tls-cert", "/dev/null", "--tls-key", "/dev/null"
        ).run()
        #expect(tls.status == 5, "\(tls.errors)")
    }

    @Test func damageMakesTheCheckFail() async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try HubProcess(data: scratch.path + "/data")
        try hub.hub("user", "add", "anna").succeed()
        let code = try hub.hub("invite", "anna").succeed().split(separator: "\n").last!
        var device = try await TestDevice(url: hub.url, code: String(code), volume: "Documents")
        try await device.save("a", bytes("some contents"))
        #expect(try hub.stop() == 0)
        try Command("truncate", "-s", "60", hub.data + "/blobs/00000001.pack").succeed()
        let result = try hub.hub("check").run()
        #expect(result.status == 1)
        #expect(result.output.contains("00000001.pack"))
    }

    @Test func tlsIsSpoken() async throws {
        let scratch = try TemporaryDirectory("hub")
        let (certificate, key) = (scratch.path + "/c.pem", scratch.path + "/k.pem")
        try Command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
            certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=IP:127.0.0.1"
        ).succeed()
        let hub = try HubProcess(
            data: scratch.path + "/data",
            ["--tls-cert", certificate, "--tls-key", key])
        #expect(hub.url.hasPrefix("https://127.0.0.1:"))
        let curl = Command("curl", "-sS", "--cacert", certificate, hub.url + "/healthz")
        #expect(try curl.succeed() == "{\"status\":\"ok\"}")
        #expect(try hub.stop() == 0)
    }

    /// After each kill, everything acknowledged is there, and nothing is there twice.
    @Test func killsLoseNothingThatWasAcknowledged() async throws {
        let scratch = try TemporaryDirectory("hub")
        let data = scratch.path + "/data"
        var hub = try HubProcess(data: data)
        try hub.hub("user", "add", "anna").succeed()
        var writers: [KillWriter] = []
        for number in 0..<3 {
            let code = try hub.hub("invite", "anna").succeed().split(separator: "\n").last!
            let device = try await TestDevice(
                url: hub.url, code: String(code), volume: "Documents")
            writers.append(KillWriter(number: number, device: device))
        }
        var random = SeededRandom(named: "killsLoseNothing")
        for _ in 0..<8 {
            let pause = UInt64(50 + random.below(300))
            let url = hub.url
            writers = try await withThrowingTaskGroup(of: KillWriter.self) { group in
                for writer in writers {
                    group.addTask {
                        var writer = writer
                        writer.device = writer.device.moved(to: url)
                        await writer.run()
                        return writer
                    }
                }
                try await Task.sleep(for: .milliseconds(pause))
                try hub.kill()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(try hub.hub("check").succeed().contains("sound"))
            hub = try HubProcess(data: data)
        }
        for writer in writers { try await writer.verify(at: hub.url) }
        #expect(writers.map(\.acknowledged.count).reduce(0, +) > 20)
        #expect(try hub.stop() == 0)
    }
}

/// Saves until the hub is gone, and continues with what was not acknowledged.
private struct KillWriter: Sendable {
    let number: Int
    var device: TestDevice
    var acknowledged: [Identifier: [UInt8]] = [:]
    private var waiting: (entry: OperationEntry, contents: [UInt8])?

    init(number: Int, device: TestDevice) {
        self.number = number
        self.device = device
    }

    mutating func run() async {
        while true {
            if waiting == nil {
                let contents = bytes("\(number) \(device.number)")
                waiting = (device.creation("\(number)-\(device.number)", contents), contents)
            }
            guard let (entry, contents) = waiting else { return }
            do {
                try await device.upload([contents])
                try await device.commit([entry])
            } catch { return }
            acknowledged[entry.item] = contents
            waiting = nil
        }
    }

    func verify(at url: String) async throws {
        let device = device.moved(to: url)
        var (found, after) = ([Identifier: Digest](), UInt64(0))
        while true {
            let page = try await device.changes(after: after)
            for case .item(let item) in page.changes
            where item.placement.name.hasPrefix("\(number)-") {
                #expect(!item.isBounced)
                found[item.id] = item.current?.content
            }
            after = page.next
            if after == page.head { break }
        }
        for (item, contents) in acknowledged {
            #expect(found[item] == device.id(of: contents))
        }
        #expect(found.count <= acknowledged.count + 1)
        let ids = acknowledged.values.map { device.id(of: $0) }
        #expect(try await device.read(ids).allSatisfy { $0.codec != .absent })
    }
}
