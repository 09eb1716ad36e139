import ArgumentParser
import Control
import Hub

struct HubCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Look at every row, reference and chunk; status 1 when something is wrong.",
        discussion: """
            Names what is damaged, a line each. Damaged chunks are noted: devices that have them \
            send them again, and then they are whole. What a user is charged for is set right \
            where it is wrong.
            """)

    @OptionGroup var hub: HubData

    func run() throws {
        let report = try hub.administer { try await $0.check() }
        for fault in report.faults { print(fault) }
        if report.quarantined > 0 {
            print(
                "\(report.quarantined) packs are in blobs/quarantine: this ledger does not name "
                    + "them, another one may. Nothing removes them.")
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
