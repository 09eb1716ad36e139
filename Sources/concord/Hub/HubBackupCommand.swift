import ArgumentParser
import Control
import Hub

struct HubBackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the hub's state into a new directory while it runs.",
        discussion: """
            The copy is consistent, and a hub can be started on it; its ledger is in SQLite and \
            its documents are in the directory, also if those of the hub are in PostgreSQL and \
            S3. Devices notice that: they send again what it lacks, and nothing is deleted because \
            it is missing there. concord hub move brings a copy back into PostgreSQL and S3.
            """)

    @OptionGroup var hub: HubData

    @Argument(help: "A new or empty directory.", completion: .directory)
    var target: String

    func run() throws {
        let target = RawArgument.path(self.target).absolute.description
        let report = try hub.administer { try await $0.backup(to: target) }
        let copied = "\(report.packs) packs, \(report.bytes) bytes of chunks"
        print("concord: copied to \(target): \(copied)")
    }
}
