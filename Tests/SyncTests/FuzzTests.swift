import Foundation
import Support
import Testing

/// `make fuzz` runs it longer.
private let minutes =
    ProcessInfo.processInfo.environment["CONCORD_FUZZ_MINUTES"].flatMap { Double($0) } ?? 0.5

/// Sends slightly wrong messages and random bytes to each endpoint of a hub and to each request of
/// a control socket, of real processes. Afterwards both serve a good client as before, their data
/// are sound, and their memory has not grown.
@Suite("Fuzzers", .serialized) struct FuzzTests {
    /// The maximum resident memory of a process. The hub may hold the bodies of one account
    /// (`CallerLimits`) and what it decodes from them.
    private static let memory = 400 << 20

    private func run(
        _ script: String, _ words: [String], against hub: HubProcess, seed: UInt64
    ) throws -> String {
        let scripts = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Fuzz")
        // The scripts add the name of the user.
        let invite = hub.command(["invite"])
        var command = Command("python3", arguments: ["-B", "\(scripts.path)/\(script).py"])
        // The time limit is at least as long as a loaded machine needs to start.
        command.timeoutSeconds = minutes * 60 + 300
        command.arguments += [words[0], "\(minutes * 60)", "\(seed)"] + words.dropFirst()
        command.arguments += [invite.program] + invite.arguments
        return try command.succeed()
    }

    private func mostMemory(of process: pid_t) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("VmHWM") })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }

    @Test("every endpoint of the hub")
    func hub() throws {
        let seed = SeededRandom(named: "Fuzz", usual: minutes < 1 ? 1 : nil).seed
        try Fleet.with(1) { fleet in
            try fleet.put(0, "before", "before")
            try fleet.hub.run("user", "add", "berta")
            let process = fleet.hub.pid
            print(try run("hub", [fleet.hub.address], against: fleet.hub, seed: seed))
            #expect(fleet.hub.pid == process)
            let most = try mostMemory(of: process)
            print("the hub had \(most >> 20) MB at most")
            #expect(most < Self.memory)
            // A device that was connected all the time.
            let device = try mostMemory(of: fleet.devices[0].pid)
            #expect(device < Self.memory)
            try fleet.put(0, "after", "after")
            try fleet.join()
            try fleet.expectEqual()
            #expect(fleet.text(1, "before") == "before" && fleet.text(1, "after") == "after")
        }
    }

    @Test("every request of the control socket")
    func controlSocket() throws {
        let seed = SeededRandom(named: "Fuzz", usual: minutes < 1 ? 1 : nil).seed
        try Fleet.with(1) { fleet in
            let (device, hub) = (fleet.devices[0], fleet.hub)
            let process = device.pid
            let words = [device.path, Programs.fsctl, hub.address]
            print(try run("control", words, against: hub, seed: seed))
            #expect(device.pid == process)
            let most = try mostMemory(of: process)
            print("the daemon had \(most >> 20) MB at most")
            #expect(most < Self.memory)
            try fleet.join()
            try fleet.expectEqual()
            try Programs.fsctl("doctor", device.path).succeed()
        }
    }
}
