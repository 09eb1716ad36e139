import ArgumentParser
import Control
import Hub

struct HubCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check every row, reference and chunk; the exit status is 1 for any fault.",
        discussion: """
            Prints one line for each fault. Damaged chunks are recorded, so that devices which \
            have them send them again. Wrong totals of what users are charged for are \
            corrected.
            """)

    @OptionGroup var hub: HubData

    func run() throws {
        let report = try hub.administer(isMoved: true) { try await $0.check() }
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
