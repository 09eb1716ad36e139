import ArgumentParser
import CLinux
import Control
import Model
import Volume

struct ShareCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "share",
        abstract: "Make a link with which anybody opens a document, list links or revoke one.",
        discussion: """
            The hub serves the document to everybody who has the link, without an account. The \
            link follows the document when it is renamed or moved, and shows its present contents, \
            never former versions. It works as long as whoever made it is the owner or an editor \
            of the volume, and the hub has its pages on. The link is printed only once: the hub \
            does not keep it.

            EXAMPLES
              fsctl share report.pdf --until 30d
              fsctl share notes.txt --edit --password
              fsctl share --list
              fsctl share --revoke 0a1b2c3d
            """)

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A document; with --list, also a directory. Default with --list: the whole volume.",
        completion: .file())
    var path: String?

    @Option(
        help: ArgumentHelp(
            "When the link ends: 30d (from now), 2026-12-24 (with that day), 2026-12-24 18:00.",
            valueName: "time"))
    var until: String?

    @Flag(
        help: """
            Ask for a password that visitors must enter. Without a terminal it is the first line \
            of standard input.
            """)
    var password = false

    @Flag(help: "Let visitors save new versions.")
    var edit = false

    @Flag(help: "List your links; the volume's owner sees those of all members.")
    var list = false

    @Option(
        help: ArgumentHelp("Revoke the link of this id, or of this part of it.", valueName: "id"))
    var revoke: String?

    func validate() throws {
        let makes = until != nil || password || edit
        guard !(list && revoke != nil), !makes || !(list || revoke != nil) else {
            throw ValidationError("Give one of a document, --list and --revoke.")
        }
        guard list || revoke != nil || path != nil else {
            throw ValidationError("Give the document to share, or --list, or --revoke ID.")
        }
    }

    func run() throws {
        if let revoke { return try end(revoke) }
        if list {
            let document = try Document(path ?? ".")
            let report = try document.ask(.links, as: LinksReport.self) {
                if path == nil { $0.path = nil }
            }
            return output.show(report) { ShareCommand.text(report) }
        }
        try make(Document(path ?? ""))
    }

    private func make(_ document: Document) throws {
        let time = try until.map { (text) throws(VolumeError) in
            if let time = PastTime.parseFuture(text), time > cl_clock_realtime_ns() { return time }
            throw VolumeError(
                .invalid,
                "\"\(text)\" is not a time to come: write 30d (from now) or 2026-12-24")
        }
        let password = password ? try NewPassword.read() : nil
        // The hub can serve only what it has.
        _ = try document.ask(.wait, as: Nothing.self) {
            $0.durability = "hub"
            $0.timeoutSeconds = ShareCommand.waitSeconds
        }
        let report = try document.ask(.link, as: LinksReport.self) {
            $0.change = "make"
            ($0.time, $0.password, $0.edits) = (time, password, edit ? true : nil)
        }
        output.show(report) { report.address ?? "" }
        if !output.json, let link = report.links.first {
            let end = link.ends.map { "until \(TimeFormat.text($0))" } ?? "until it is revoked"
            Terminal.printError(
                "Anybody who has it may \(link.edits ? "read and change" : "read") the document "
                    + "\(end): fsctl share --revoke \(link.short)")
        }
    }

    private static let waitSeconds: Double = 60

    private func end(_ id: String) throws {
        let document = try Document(path ?? ".")
        let links = try document.ask(.links, as: LinksReport.self) { $0.path = nil }.links
        let found = links.filter { $0.id.hasPrefix(id.lowercased()) }
        guard let link = found.first, found.count == 1, !id.isEmpty else {
            throw VolumeError(
                found.isEmpty || id.isEmpty ? .notFound : .invalid,
                found.isEmpty || id.isEmpty
                    ? "you have no link \(id) in this volume: fsctl share --list lists them"
                    : "several links begin with \(id): give more of the id")
        }
        let report = try document.ask(.link, as: LinksReport.self) {
            $0.path = nil
            ($0.change, $0.link) = ("revoke", link.id)
        }
        output.show(report) { "The link \(link.short) to \(link.path.printable) is revoked." }
    }

    private static func text(_ report: LinksReport) -> String {
        guard !report.links.isEmpty else { return "There are no links." }
        var table = Table([
            .init("ID"), .init("PATH", isFlexible: true), .init("BY"), .init("MADE"),
            .init("ENDS"), .init(""),
        ])
        for link in report.links {
            let marks = [
                link.edits ? "edit" : nil, link.password ? "password" : nil,
                link.ended ? "ended" : nil, link.deleted ? "deleted" : nil,
            ]
            table.add([
                link.short, link.path.printable, link.maker.printable, TimeFormat.text(link.made),
                link.ends.map { TimeFormat.text($0) } ?? "never",
                marks.compactMap(\.self).joined(separator: ", "),
            ])
        }
        return table.text(width: Terminal.width, heading: Terminal.bold)
    }
}

extension LinksReport.Link {
    /// The beginning of the id, which versions show that were saved by the link.
    fileprivate var short: String { String(id.prefix(8)) }
}
