import ArgumentParser
import Control
import Model

struct MembersCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "members", abstract: "List, add and remove the members of the volume.",
        discussion: """
            The user whose device created the volume owns it and decides who is a member. An \
            editor changes the volume; a reader's mount is read-only. A member joins with a new \
            mount and a code of their own (concord hub invite): fsctl signin URL --volume NAME \
            --owner OWNER. Whoever is removed keeps what is on their machine.

            With --folder the new member sees only that folder, as a volume of its own with the \
            name VOLUME/FOLDER: nothing outside of it, also not by links, pages and WebDAV, which \
            members of a folder do not have. The folder stays where it is.

            EXAMPLES
              fsctl members
              fsctl members add bert --role reader
              fsctl members add carl --folder Plans/2027
              fsctl members role bert editor
              fsctl members remove bert
            """,
        subcommands: [List.self, Add.self, ChangeRole.self, Remove.self],
        defaultSubcommand: List.self)

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the volume's members.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var volume: VolumeOption

        func run() throws {
            let report = try volume.ask(.members, as: MembersReport.self)
            output.show(report) { MembersCommand.text(report) }
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Let a user of the hub in.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var volume: VolumeOption

        @Argument(help: "The user's name at the hub.")
        var user: String

        @Option(help: "What the member may do: editor or reader.")
        var role: String = "editor"

        @Option(
            help: "The folder that is the whole volume for the member.", completion: .directory)
        var folder: String?

        func run() throws {
            try MembersCommand.change(volume, output, "add", user, role, folder: folder)
        }
    }

    struct ChangeRole: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "role", abstract: "Change what a member may do.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var volume: VolumeOption

        @Argument(help: "The member's name.")
        var user: String

        @Argument(help: "editor or reader.")
        var role: String

        func run() throws {
            try MembersCommand.change(volume, output, "role", user, role)
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a member, or leave the volume yourself.",
            discussion: """
                It takes effect at once. The member's devices keep their files, and what they \
                have not sent stays there.
                """)

        @OptionGroup var output: OutputOptions
        @OptionGroup var volume: VolumeOption

        @Argument(help: "The member's name.")
        var user: String

        func run() throws {
            try MembersCommand.change(volume, output, "remove", user, nil)
        }
    }

    private static func change(
        _ volume: VolumeOption, _ output: OutputOptions, _ change: String, _ user: String,
        _ role: String?, folder: String? = nil
    ) throws {
        if let role, !["editor", "reader"].contains(role) {
            throw ValidationError("\"\(role)\" is not the role of a member: say editor or reader.")
        }
        let document = try folder.map { (path) throws(VolumeError) in try Document(path) }
        let report = try (document ?? volume.document()).ask(.member, as: MembersReport.self) {
            if document == nil { $0.path = nil }
            $0.change = change
            $0.user = user
            $0.role = role
        }
        output.show(report) { text(report) }
    }

    private static func text(_ report: MembersReport) -> String {
        guard !report.members.isEmpty else { return "You have left the volume." }
        let hasFolders = report.members.contains { $0.folder != nil }
        var table = Table(
            [.init("USER", isFlexible: true), .init("ROLE"), .init("SINCE")]
                + (hasFolders ? [.init("FOLDER", isFlexible: true)] : []) + [.init("")])
        for member in report.members {
            table.add(
                [member.user.printable, member.role, TimeFormat.text(member.since)]
                    + (hasFolders ? [member.folder?.printable ?? ""] : [])
                    + [member.here ? "you" : ""])
        }
        return table.text(width: Terminal.width, heading: Terminal.bold)
    }
}

struct VolumesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "volumes",
        abstract: "List the hub's volumes that you may use: your own and those of others.",
        discussion: """
            Each volume has a mount of its own. On a new mount, fsctl signin URL --volume NAME \
            --owner OWNER joins one of another user.
            """)

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.volumes, as: VolumesReport.self)
        output.show(report) {
            var table = Table([
                .init("NAME", isFlexible: true), .init("OWNER", isFlexible: true), .init("ROLE"),
                .init(""),
            ])
            for volume in report.volumes {
                table.add([
                    volume.name.printable, volume.owner?.printable ?? "you", volume.role,
                    volume.here ? "this one" : "",
                ])
            }
            return table.text(width: Terminal.width, heading: Terminal.bold)
        }
    }
}
