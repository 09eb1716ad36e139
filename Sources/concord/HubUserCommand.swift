import ArgumentParser
import Hub

struct HubUserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Add, list and remove the users of a hub.",
        subcommands: [Add.self, List.self, Quota.self, Remove.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user; where there is no hub yet, make one.")

        @OptionGroup var hub: HubData

        @Option(
            help: "How many bytes may be kept for him (500M, 20G). Default: without limit.",
            transform: readQuota)
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

    struct Quota: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say how much a user may have here, or change it.",
            discussion: """
                What is kept for a user counts: the contents of all versions, each once in a \
                volume. With less than he has, nothing is removed: his devices keep what is new to \
                themselves, and say so, until there is room again. It takes effect at once.
                """)

        @OptionGroup var hub: HubData

        @Argument(help: "The name.")
        var name: String

        @Argument(
            help: "Bytes, or 500M, 20G (powers of 1000); none: without limit. Default: only say it."
        )
        var size: String?

        func run() throws {
            let (name, size) = (self.name, self.size)
            let quota = try size == "none" ? nil : size.map(readQuota)
            let account = try hub.administer { hub in
                if size != nil { try await hub.setQuota(of: name, quota) }
                return try await hub.account(name)
            }
            let limit = account.quota.map { "of \($0) bytes" } ?? "bytes, without a limit"
            print("concord: \(name) has \(account.used) \(limit)")
            guard let limit = account.quota, account.used > limit else { return }
            print("concord: that is more than the quota, so nothing more is taken for now")
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

@Sendable private func readQuota(_ text: String) throws -> UInt64 {
    guard let bytes = ByteSize.read(text), bytes < .max else {
        throw ValidationError("\"\(text)\" is no size: write 500M or 20G, or none for no limit.")
    }
    return UInt64(bytes)
}
