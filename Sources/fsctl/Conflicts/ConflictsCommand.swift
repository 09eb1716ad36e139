import ArgumentParser
import Control
import Model

struct ConflictsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "List the documents that have versions in conflict.",
        discussion: """
            When two people edit a document at once, or one person on two machines, both \
            versions are kept. The document shows one of them; .conflicts/NAME/ beside it has \
            the others. fsctl resolve settles the conflict. You can go on editing meanwhile.
            """)

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A directory or a document. Default: the working directory.", completion: .file())
    var path = "."

    func run() throws {
        let report = try Conflicts(at: path).report
        output.show(report) {
            guard !report.documents.isEmpty else { return "No document here is in conflict." }
            return report.documents.map(\.table).joined(separator: "\n\n")
        }
    }
}

/// The conflicts at or below a path, as the daemon knows them.
struct Conflicts {
    let report: ConflictsReport
    let client: ControlClient
    /// The volume's mount point.
    let root: FilePath

    init(at path: String) throws(VolumeError) {
        let document = try Document(path)
        client = document.client
        root = document.place.mountPoint
        report = try client.ask(
            Request(.conflicts, path: document.place.components), as: ConflictsReport.self)
    }

    func path(of document: ConflictsReport.Document) -> FilePath {
        (document.path.path ?? []).reduce(root) { $0.appending($1) }
    }

    /// A line that tells a person who did not ask about conflicts how many documents have them; nil
    /// when `count` is 0.
    static func line(_ count: Int, in place: String) -> String? {
        guard count > 0 else { return nil }
        let have = count == 1 ? "1 document has" : "\(count) documents have"
        return "\(have) versions in conflict \(place): fsctl conflicts lists them."
    }
}

extension ConflictsReport.Document {
    /// The conflict as a table for people: the document's path, then one row for each version.
    var table: String {
        var table = Table([
            .init(""), .init("VERSION", .right), .init("SAVED"), .init("SIZE", .right),
            .init("BY", isFlexible: true), .init("DEVICE", isFlexible: true), .init("FROM"),
        ])
        if let current { table.add(row("current", current, "")) }
        for conflict in conflicts {
            let base = conflict.base.map { "version \($0)" } ?? ""
            table.add(row("other", conflict.version, base))
        }
        return Terminal.bold(path.text.printable) + "\n" + table.text(width: Terminal.width)
    }

    private func row(_ kind: String, _ version: VersionReport, _ base: String) -> [String] {
        [
            kind, "\(version.number)", TimeFormat.text(version.saved), Amount.size(version.size),
            version.author, version.deviceName, base,
        ]
    }
}

extension VersionReport {
    /// `anna, vim`
    var author: String { [person, program].filter { !$0.isEmpty }.joined(separator: ", ") }
}
