import ArgumentParser
import Hub

struct HubRevokeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Revoke a device's access to the hub at once.",
        discussion: """
            The device keeps its files and what it has not sent yet. It can sign in again with \
            a new code.
            """)

    @OptionGroup var hub: HubData

    @Argument(help: "The device's id, the beginning of one, or its name.")
    var device: String

    func run() throws {
        let device = self.device
        let revoked = try hub.administer { try await $0.revoke(device) }
        print("concord: revoked \(revoked.name) (\(revoked.id))")
    }
}
