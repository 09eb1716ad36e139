import ArgumentParser
import Hub

struct HubUserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Add, list and remove the users of a hub.",
        subcommands: [Add.self, List.self, Remove.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user; where there is no hub yet, make one.")

        @OptionGroup var hub: HubData

        @Option(help: "How many bytes of versions he may have here. Default: without limit.")
        var quota: UInt64?

        @Argument(help: "The name.")
        var name: String

        func run() throws {
            let (name, quota) = (self.name, self.quota)
            try hub.administer(mayCreate: true) { try await $0.addAccount(name, quota: quota) }
            print("concord: added \(name); concord hub invite \(name) makes a code to sign in with")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List users: name, bytes used, quota; a tab between.")

        @OptionGroup var hub: HubData

        func run() throws {
            for account in try hub.administer({ try await $0.accounts() }) {
                print("\(account.name)\t\(account.used)\t\(account.quota.map { "\($0)" } ?? "-")")
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user; his devices are signed out.")

        @OptionGroup var hub: HubData

        @Flag(help: "Also when he has volumes here: they are removed for good.")
        var withVolumes = false

        @Argument(help: "The name.")
        var name: String

        func run() throws {
            let (name, withVolumes) = (self.name, self.withVolumes)
            try hub.administer { try await $0.removeAccount(name, withVolumes: withVolumes) }
            print("concord: removed \(name)")
        }
    }
}
