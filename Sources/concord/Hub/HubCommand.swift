import ArgumentParser

struct HubCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hub",
        abstract: "Run and administer a hub, which keeps volumes for many devices.",
        discussion: """
            A hub is kept in a directory on a local disk. The commands below work on it whether \
            it is running or not.

            EXAMPLES
              concord hub --data /srv/hub --listen 0.0.0.0:8420 --tls-cert c.pem --tls-key k.pem
              concord hub user add anna --data /srv/hub
              concord hub invite anna --data /srv/hub
              concord hub backup /backup/today --data /srv/hub
            """,
        subcommands: [
            HubServeCommand.self, HubUserCommand.self, HubInviteCommand.self,
            HubPasswordCommand.self, HubMemberCommand.self, HubDevicesCommand.self,
            HubRevokeCommand.self,
            HubCheckCommand.self, HubBackupCommand.self, HubMoveCommand.self,
            HubCollectCommand.self, HubRestoredCommand.self,
        ],
        defaultSubcommand: HubServeCommand.self)
}
