import ArgumentParser
import Control
import Model

struct VersionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "versions",
        abstract:
            "List the versions of a document, oldest first, or what was deleted from a directory.",
        discussion: """
            A deleted document is named by its id, which --deleted DIR shows; the working \
            directory must then be on its volume. A version's ID is the same on all devices, \
            its number is not; every command takes either of them.
            """)

    @OptionGroup var output: OutputOptions

    @Flag(help: "List the deleted documents of a directory instead.")
    var deleted = false

    @Flag(name: .customLong("by"), help: "Show in which session each version was saved.")
    var showsSessions = false

    @Argument(
        help: "A document, or its id; with --deleted, a directory.", completion: .file())
    var file: String

    func run() throws {
        if !deleted, Identifier(file) != nil, RawArgument.path(file).kind == nil {
            var request = Request(.versions)
            request.document = file
            return show(try Document(".").client.ask(request, as: HistoryReport.self))
        }
        guard !deleted else {
            return try VersionsCommand.listDeleted(Document(deleted: file), output)
        }
        let document = try Document(file)
        show(try document.ask(.versions, as: HistoryReport.self) { $0.earlier = true })
    }

    private func show(_ history: HistoryReport) {
        output.show(history) {
            let versions =
                history.versions.isEmpty
                ? "No version of \(file) has been recorded yet."
                : VersionsCommand.table(history.versions, showsSessions: showsSessions)
            let earlier = (history.earlier ?? []).sorted { $0.deleted < $1.deleted }.map {
                "An earlier document of this name, deleted \(TimeFormat.text($0.deleted)), has "
                    + "\(Amount.count($0.versions, "version")): fsctl versions \($0.id)"
            }
            return ([versions] + earlier).joined(separator: "\n")
        }
    }

    private static func table(_ versions: [VersionReport], showsSessions: Bool) -> String {
        let ids = ShortIdentifiers(versions)
        var table = Table([
            .init("VERSION", .right), .init("ID"), .init("SAVED"), .init("SIZE", .right),
            .init("BY", isFlexible: true), .init("DEVICE", isFlexible: true), .init("STATE"),
            .init(showsSessions ? "SESSION" : "LABEL", isFlexible: true),
        ])
        for version in versions {
            let state = [
                version.kind == "history" ? nil : version.kind,
                version.durability == "memory" ? "in memory" : nil,
            ].compactMap(\.self).joined(separator: ", ")
            table.add([
                "\(version.number)", ids.text(version), TimeFormat.text(version.saved),
                Amount.size(version.size),
                [version.person, version.program].filter { !$0.isEmpty }.joined(separator: ", "),
                version.deviceName, state,
                (showsSessions ? version.session : version.label) ?? "",
            ])
        }
        return table.text(width: Terminal.width, heading: Terminal.bold)
    }

    static func listDeleted(_ directory: Document, _ output: OutputOptions) throws(VolumeError) {
        let report = try directory.ask(.versions, as: DeletedReport.self) { $0.deleted = true }
        output.show(report) {
            if report.documents.isEmpty {
                return "No deleted document is known in \(directory.path)."
            }
            var table = Table([
                .init("DELETED"), .init("VERSIONS", .right), .init("SIZE", .right), .init("ID"),
                .init("NAME", isFlexible: true),
            ])
            for document in report.documents {
                table.add([
                    TimeFormat.text(document.deleted), "\(document.versions)",
                    Amount.size(document.size), document.id, document.name.text,
                ])
            }
            return table.text(width: Terminal.width, heading: Terminal.bold)
        }
    }
}
