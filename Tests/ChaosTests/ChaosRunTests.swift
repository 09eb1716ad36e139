import Foundation
import Support
import Testing

/// CONCORD_CHAOS_MINUTES, or a few rounds; `make chaos` sets it.
private let minutes =
    ProcessInfo.processInfo.environment["CONCORD_CHAOS_MINUTES"].flatMap { Int($0) }

@Suite("Chaos", .enabled(if: geteuid() == 0, "mounting through a mapping takes passthrough"))
struct ChaosRunTests {
    /// A few rounds are part of each test run. They are without the kinds of faults that have not
    /// yet had enough rounds of `make chaos` in which they found nothing.
    private static let left = "timePassed,storeCopied,partMissing"

    @Test("three devices, a hub and bad connections from one seed: no promise is broken")
    func run() throws {
        let home = try TemporaryDirectory("chaos")
        var command = Command(
            "\(Programs.directory)/chaos", "run", "--seed", "26112301", "--out", home.path)
        command.arguments +=
            minutes.map { ["--minutes", "\($0)"] }
            ?? ["--rounds", "10", "--without", Self.left]
        command.timeoutSeconds = Double(minutes ?? 10) * 60 + 600
        let result = try command.run()
        #expect(result.status == 0, "\(result.output)\(result.errors)")
    }
}
