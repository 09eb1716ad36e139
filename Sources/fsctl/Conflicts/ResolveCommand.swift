import ArgumentParser
import Control
import Model

struct ResolveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Settle versions in conflict.",
        discussion: """
            Without an option, on a terminal, it shows the versions and asks. What you do not \
            choose stays in the history; --undo takes a decision back. Only versions that \
            existed when the conflict was shown are settled.

            EXAMPLES
              fsctl resolve letter.odt --keep current
              fsctl resolve letter.odt --keep 8
              fsctl resolve notes.txt --tool vimdiff
              fsctl resolve --all . --keep newest
            """)

    @OptionGroup var output: OutputOptions

    @Option(
        help: ArgumentHelp(
            "current, newest, a version's number, or both (the others become NAME 2.EXT).",
            valueName: "which"))
    var keep: ConflictChoice?

    @Option(
        help: ArgumentHelp(
            "Merge with a program: vimdiff, meld, …, or what git's mergetool.TOOL.cmd says.",
            valueName: "tool"))
    var tool: String?

    @Flag(help: "Merge the versions where that is clean (see fsctl merge --explain).")
    var merge = false

    @Flag(help: "Take back the last decision.")
    var undo = false

    @Flag(help: "Settle every document at or below the path.")
    var all = false

    @Argument(help: "A document; with --all, a directory.", completion: .file())
    var path: String

    func validate() throws {
        let ways = [keep != nil, tool != nil, merge, undo].count { $0 }
        if ways > 1 { throw ValidationError("Choose one of --keep, --merge, --tool and --undo.") }
        if all, undo { throw ValidationError("--undo takes back one document's decision.") }
        if all, keep == nil, tool == nil, !merge {
            throw ValidationError("--all needs one of --keep, --merge and --tool.")
        }
    }

    private struct Report: Encodable {
        var documents: [Document] = []

        struct Document: Encodable {
            let path: RawText
            let current: Int?
            let settled: [Int]
        }
    }

    func run() throws {
        if undo { return try takeBack() }
        let conflicts = try Conflicts(at: path)
        let documents = conflicts.report.documents
        let given = try Document(path).path
        if !all, documents.count != 1 || conflicts.path(of: documents[0]) != given {
            throw VolumeError(
                .notFound,
                documents.isEmpty
                    ? given.kind == nil
                        ? "there is no \(path)" : "\(path) has no versions in conflict"
                    : "\(path) is a directory; --all means the documents in it")
        }
        var report = Report()
        for document in documents {
            let settling = ConflictResolver(document, in: conflicts)
            guard let settled = try settle(settling) else { continue }
            report.documents.append(
                Report.Document(
                    path: document.path, current: settled.current, settled: settled.settled))
            if !output.json { print(settling.sentence(settled)) }
        }
        if output.json { output.show(report) { "" } }
    }

    /// Returns nil when the conflict is left as it is.
    private func settle(_ settling: ConflictResolver) throws -> ResolutionReport? {
        if let keep { return try settling.keep(keep) }
        if merge { return try settling.merge() }
        if let tool { return try MergeTool(tool).merge(settling) }
        guard Terminal.width != nil else {
            throw VolumeError(
                .invalid,
                "\(path) has \(Amount.count(settling.numbers.count, "other version")); say which "
                    + "to keep with --keep, or run this on a terminal")
        }
        return try Dialogue(settling).run()
    }

    private func takeBack() throws {
        let document = try Document(path)
        let report = try document.ask(.resolve, as: ResolutionReport.self) { $0.undo = true }
        output.show(report) {
            let numbers = report.settled.map(String.init).joined(separator: ", ")
            return "\(path) has versions in conflict again: \(numbers)."
        }
    }
}

/// Which version of a conflict becomes current.
enum ConflictChoice: ExpressibleByArgument, Hashable {
    case current, newest, both
    /// A version's number, or the beginning of its id.
    case version(String)

    init?(argument: String) {
        switch argument {
        case "current": self = .current
        case "newest": self = .newest
        case "both": self = .both
        default:
            guard Int(argument) ?? 0 > 0 || ShortIdentifiers.isStart(argument) else { return nil }
            self = .version(argument)
        }
    }
}
