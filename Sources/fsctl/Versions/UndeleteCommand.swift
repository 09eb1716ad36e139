import ArgumentParser
import Control
import Model

struct UndeleteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undelete",
        abstract: "Bring a deleted document back.",
        discussion: """
            Without an argument: lists what was deleted from the working directory. A document \
            is named by its path or by its id, which fsctl versions --deleted DIR shows. With \
            an id, the working directory must be on the document's volume. Directories that were \
            deleted with the document are made again.
            """)

    @OptionGroup var output: OutputOptions

    @Option(
        name: .customLong("as"), help: "Another path to write; it must not exist.",
        completion: .file())
    var other: String?

    @Argument(help: "The path of the deleted document, or its id.", completion: .file())
    var document: String?

    private struct Report: Encodable {
        let undeleted: String
        let version: Int
        let path: RawText
    }

    func run() throws {
        guard let document else {
            return try VersionsCommand.listDeleted(Document("."), output)
        }
        let other = self.other.map { RawArgument.path($0).absolute }
        if Identifier(document) != nil, RawArgument.path(document).kind == nil {
            let here = try Document(".")
            try bringBack(document, here.client, to: other) { here.path.appending($0) }
        } else {
            let place = try Document(deleted: document)
            if other == nil, place.path.kind != nil {
                throw VolumeError(
                    .busy,
                    "\(document) exists; --as OTHER brings a deleted document of that name back "
                        + "under another name"
                )
            }
            let id = try newest(named: place).id
            try bringBack(id, place.client, to: other) { _ in place.path }
        }
    }

    private func newest(named place: Document) throws(VolumeError) -> DeletedReport.Document {
        var request = Request(.versions, path: place.place.components.dropLast())
        request.deleted = true
        let report = try place.client.ask(request, as: DeletedReport.self)
        let name = place.path.name.bytes
        let found = report.documents.filter { $0.name.bytes == name }.max {
            $0.deleted < $1.deleted
        }
        if let found { return found }
        throw VolumeError(
            .notFound,
            "no deleted document \(place.given) is known; fsctl versions --deleted "
                + "\(place.path.parent) lists those that are"
        )
    }

    private func bringBack(
        _ id: String, _ client: ControlClient, to other: FilePath?, usual: (Name) -> FilePath
    ) throws(VolumeError) {
        var request = Request(.versions)
        request.document = id
        let history = try client.ask(request, as: HistoryReport.self)
        // A version that was added may have a higher number than what was deleted.
        let current = history.versions.last { $0.kind == "current" }
        guard let last = current ?? history.versions.last(where: { $0.kind != "conflict" }) else {
            throw VolumeError(.notFound, "no version of document \(id) is left")
        }
        let target = other ?? usual(Name(bytes: last.name.bytes))
        // They were deleted with the document.
        if other == nil { try target.makeParents(mode: 0o777) }
        let contents = try VersionContents(of: last, ofDeleted: id, from: client)
        try Restoration(contents: contents, target: target, replaces: false).run()
        output.show(Report(undeleted: id, version: last.number, path: RawText(bytes: target.bytes)))
        {
            "\(target) is back, with the contents of its \(last.title)."
        }
    }
}
