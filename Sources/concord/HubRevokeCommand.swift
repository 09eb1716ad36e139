import ArgumentParser
import Hub

struct HubRevokeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Take away a device's right to the hub, at once.",
        discussion: """
            The device keeps what it has, and what it did not send yet; with a new code it may \
            sign in again.
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
