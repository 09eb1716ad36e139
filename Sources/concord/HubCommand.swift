import ArgumentParser

struct HubCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hub",
        abstract: "Run a hub, which keeps volumes for many devices, and look after one.",
        discussion: """
            A hub lives in a directory on a local disk. The commands below work on it while it \
            runs, and while it does not.

            EXAMPLES
              concord hub --data /srv/hub --listen 0.0.0.0:8420 --tls-cert c.pem --tls-key k.pem
              concord hub user add anna --data /srv/hub
              concord hub invite anna --data /srv/hub
              concord hub backup /backup/today --data /srv/hub
            """,
        subcommands: [
            HubServeCommand.self, HubUserCommand.self, HubInviteCommand.self,
            HubDevicesCommand.self, HubRevokeCommand.self, HubCheckCommand.self,
            HubBackupCommand.self, HubCollectCommand.self, HubRestoredCommand.self,
        ],
        defaultSubcommand: HubServeCommand.self)
}
