import ArgumentParser
import Control
import Hub

struct HubBackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the hub as of one moment into a new directory, while it runs.",
        discussion: """
            The copy is a hub's directory. Devices notice when a hub is started on it: what they \
            have and it has not is sent again, and nothing is deleted because it is missing there.
            """)

    @OptionGroup var hub: HubData

    @Argument(help: "A directory that is not there yet, or is empty.", completion: .directory)
    var target: String

    func run() throws {
        let target = RawArgument.path(self.target).absolute.description
        let report = try hub.administer { try await $0.backup(to: target) }
        let copied = "\(report.packs) packs, \(report.bytes) bytes of chunks"
        print("concord: copied to \(target): \(copied)")
    }
}
