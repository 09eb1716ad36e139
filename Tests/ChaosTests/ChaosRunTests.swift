import Foundation
import Support
import Testing

/// CONCORD_CHAOS_MINUTES, or a few rounds; `make chaos` takes as long as it is told.
private let minutes =
    ProcessInfo.processInfo.environment["CONCORD_CHAOS_MINUTES"].flatMap { Int($0) }

@Suite("Chaos", .enabled(if: geteuid() == 0, "mounting through a mapping takes passthrough"))
struct ChaosRunTests {
    @Test("three devices, a hub and bad lines from one seed: no promise breaks")
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
