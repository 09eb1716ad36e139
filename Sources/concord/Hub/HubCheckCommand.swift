import ArgumentParser
import Control
import Foundation
import Hub
import Synchronization

struct HubCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check every row, reference and chunk; the exit status is 1 for any fault.",
        discussion: """
            Prints one line for each fault. Damaged chunks are recorded, so that devices which \
            have them send them again. Wrong totals of what users are charged for are \
            corrected. What was examined so far is said on standard error every five seconds.
            """)

    @OptionGroup var hub: HubData

    func run() throws {
        let shown = ShownProgress()
        let report = try hub.administer(isMoved: true) { try await $0.check(progress: shown.show) }
        for fault in report.faults { print(fault) }
        if report.quarantined > 0 {
            print(
                "\(report.quarantined) packs are in blobs/quarantine: this ledger does not name "
                    + "them, but another one may. They are never removed automatically.")
        }
        let seen =
            "\(report.volumes) volumes, \(report.items) items, \(report.revisions) versions, "
            + "\(report.chunks) chunks (\(report.bytes) bytes)"
        guard report.faults.isEmpty else {
            print("concord: \(report.faults.count) faults in \(seen)")
            throw ArgumentParser.ExitCode(Control.ExitCode.notGood.rawValue)
        }
        print("concord: sound: \(seen)")
    }
}

/// Says every five seconds on standard error what was examined.
private final class ShownProgress: Sendable {
    private let next = Mutex(ContinuousClock.now + pause)
    private static let pause = Duration.seconds(5)

    func show(_ progress: CheckProgress) {
        let now = ContinuousClock.now
        let isDue = next.withLock { next in
            guard now >= next else { return false }
            next = now + Self.pause
            return true
        }
        guard isDue else { return }
        let text =
            switch progress {
            case .items(let count): "\(count) items"
            case .chunks(let count): "\(count) chunks"
            }
        FileHandle.standardError.write(Data("concord: checked \(text)\n".utf8))
    }
}
