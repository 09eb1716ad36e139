import ArgumentParser
import Hub

struct HubUserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Add, list and remove the users of a hub.",
        subcommands: [Add.self, List.self, Quota.self, Owner.self, Remove.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user; create the hub if there is none yet.")

        @OptionGroup var hub: HubData

        @Option(
            help: "The bytes that may be kept for the user (500M, 20G). Default: no limit.",
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
            abstract: "List users: name, bytes used, quota, separated by tabs.")

        @OptionGroup var hub: HubData

        func run() throws {
            for account in try hub.administer({ try await $0.accounts() }) {
                print("\(account.name)\t\(account.used)\t\(account.quota.map { "\($0)" } ?? "-")")
            }
        }
    }

    struct Quota: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show or change the quota of a user.",
            discussion: """
                The quota limits the bytes of all versions of a user, each content counted once \
                in a volume. A quota below the present use removes nothing: the user's devices \
                keep new contents to themselves and report it until there is room again. It \
                takes effect at once.
                """)

        @OptionGroup var hub: HubData

        @Argument(help: "The name.")
        var name: String

        @Argument(
            help: "Bytes, or 500M, 20G (powers of 1000); none means no limit. Default: show it."
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
            print("concord: that is more than the quota, so the hub accepts no new contents")
        }
    }

    struct Owner: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let a user administer the hub on its pages, or no longer.",
            discussion: """
                An owner sees all accounts, storage and health at /web/hub, sets quotas and \
                makes codes for every account. A code opens the account, so an owner can read \
                everything in the hub. It takes effect at once.
                """)

        @OptionGroup var hub: HubData

        @Flag(help: "Take the right away.")
        var remove = false

        @Argument(help: "The name.")
        var name: String

        func run() throws {
            let (name, isOwner) = (self.name, !remove)
            try hub.administer { try await $0.setOwner(name, isOwner) }
            print("concord: \(name) \(isOwner ? "owns" : "does not own") the hub on its pages")
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user and sign out the user's devices.")

        @OptionGroup var hub: HubData

        @Flag(help: "Remove the user's volumes, too, for good.")
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
        throw ValidationError("\"\(text)\" is not a size: write 500M or 20G, or none for no limit.")
    }
    return UInt64(bytes)
}
