import ArgumentParser
import Hub
import HubProtocol
import Model

struct HubMemberCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "member", abstract: "List, add and remove the members of volumes.",
        discussion: """
            A volume belongs to the user whose device created it. Other users may be its members: \
            an editor changes it, a reader only reads it. A member may be limited to a folder, \
            which is the whole volume for them. Its bytes count to the owner's quota. \
            Everything takes effect at once, also while the hub is running.

            EXAMPLES
              concord hub member add anna team bert --role editor --data /srv/hub
              concord hub member add anna team carl --folder Plans/2027 --data /srv/hub
              concord hub member list anna team --data /srv/hub
            """,
        subcommands: [List.self, Add.self, ChangeRole.self, Remove.self])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the members of a volume: name, role, time, folder, separated by tabs.",
            discussion: """
                Without a user and a volume, all volumes are listed: owner, number of members, \
                name.
                """)

        @OptionGroup var hub: HubData

        @Argument(help: "The user who owns the volume.")
        var owner: String?

        @Argument(help: "The volume's name.")
        var volume: String?

        func validate() throws {
            guard (owner == nil) == (volume == nil) else {
                throw ValidationError("The volume's name is missing: give OWNER VOLUME.")
            }
        }

        func run() throws {
            guard let owner, let volume else {
                for volume in try hub.administer({ try await $0.volumes() }) {
                    print("\(volume.owner)\t\(volume.members)\t\(volume.name)")
                }
                return
            }
            let members = try hub.administer { try await $0.members(of: volume, owner: owner) }
            for member in members {
                let since = Timestamp(nanoseconds: member.since).fileName
                let folder = member.folder.map { "\t\($0)" } ?? ""
                print("\(member.user)\t\(member.role.rawValue)\t\(since)\(folder)")
            }
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a member to a volume.")

        @OptionGroup var hub: HubData
        @OptionGroup var member: MemberArguments

        @Option(help: "What the member may do: editor or reader.")
        var role: String = "editor"

        @Option(help: "The path of the folder that is the whole volume for the member.")
        var folder: String?

        func run() throws {
            let request = MemberRequest(.add, member.user, role: try role.memberRole())
            try member.change(request, at: hub, folder: folder)
            let name = folder?.split(separator: "/").last.map { "\(member.volume)/\($0)" }
            print(
                "concord: \(member.user) is a member of \(folder ?? member.volume); on a new "
                    + "mount: fsctl signin URL --volume \"\(name ?? member.volume)\" "
                    + "--owner \(member.owner)")
        }
    }

    struct ChangeRole: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "role", abstract: "Change what a member may do.")

        @OptionGroup var hub: HubData
        @OptionGroup var member: MemberArguments

        @Argument(help: "editor or reader.")
        var role: String

        func run() throws {
            let role = try role.memberRole()
            try member.change(MemberRequest(.role, member.user, role: role), at: hub)
            print("concord: \(member.user) is a \(role.rawValue) of \(member.volume)")
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a member from a volume.",
            discussion: """
                The member's devices keep their files, and what they have not sent stays there.
                """)

        @OptionGroup var hub: HubData
        @OptionGroup var member: MemberArguments

        func run() throws {
            try member.change(MemberRequest(.remove, member.user), at: hub)
            print("concord: \(member.user) is no longer a member of \(member.volume)")
        }
    }
}

/// The volume and the user that a command about a member names.
struct MemberArguments: ParsableArguments {
    @Argument(help: "The user who owns the volume.")
    var owner: String

    @Argument(help: "The volume's name.")
    var volume: String

    @Argument(help: "The user who is, or will be, a member.")
    var user: String

    func change(_ request: MemberRequest, at hub: HubData, folder: String? = nil) throws {
        let (owner, volume) = (self.owner, self.volume)
        try hub.administer {
            try await $0.change(request, in: volume, owner: owner, folder: folder)
        }
    }
}

extension String {
    /// - Throws: `ValidationError` if the text is not the role of a member.
    fileprivate func memberRole() throws -> Role {
        guard let role = Role(rawValue: self), role != .owner else {
            throw ValidationError("\"\(self)\" is not the role of a member: say editor or reader.")
        }
        return role
    }
}
