import Foundation
import Support
import Testing

/// CONCORD_CHAOS_MINUTES, or a few rounds; `make chaos` sets it.
private let minutes =
    ProcessInfo.processInfo.environment["CONCORD_CHAOS_MINUTES"].flatMap { Int($0) }

@Suite("Chaos", .enabled(if: geteuid() == 0, "mounting through a mapping takes passthrough"))
struct ChaosRunTests {
    /// It is not part of each test run, because it finds faults that are not repaired yet. (One
    /// device did not settle: a document was "not at the hub: some of its contents cannot be read
    /// on this device", once in round 3.)
    @Test(
        "three devices, a hub and bad connections from one seed: no promise is broken",
        .enabled(if: minutes != nil, "takes CONCORD_CHAOS_MINUTES"))
    func run() throws {
        let home = try TemporaryDirectory("chaos")
        var command = Command(
            "\(Programs.directory)/chaos", "run", "--seed", "26112301", "--out", home.path)
        command.arguments +=
            minutes.map { ["--minutes", "\($0)"] } ?? ["--rounds", "3", "--actions", "100"]
        command.timeoutSeconds = Double(minutes ?? 10) * 60 + 600
        let result = try command.run()
        #expect(result.status == 0, "\(result.output)\(result.errors)")
    }
}
