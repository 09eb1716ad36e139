import ArgumentParser
import Control
import Glibc
import Model
import SystemCalls
import Volume

struct RewindCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rewind",
        abstract: "Restore a folder to an earlier time, or undo what one session did in it.",
        discussion: """
            Documents get their contents of that time as new versions, and deleted documents \
            come back. Nothing is lost: you can rewind to the time before. Documents made since \
            then stay, unless --exact deletes them (fsctl undelete brings them back). Documents \
            stay where they are now: moves are not undone.

            With --by, what one session did is undone, document by document, and what others did \
            since stays: where both changed a document, a merge takes the session's edits out, or \
            the version from before the session is put in conflict with the current one. What the \
            session made is deleted, and what it deleted or moved comes back. SESSION is what \
            fsctl versions --by shows, or the beginning of it; PERSON:SESSION is that of one \
            person. The last line is the command that takes this back.

            TIME is 2026-11-21 14:03, 2026-11-21, 14:03, yesterday, or 90s, 5min, 3h, 2d, 1w ago. \
            .versions/@TIME/ of a directory shows it as it was.
            """)

    @OptionGroup var output: OutputOptions

    @Option(help: ArgumentHelp("The time to restore.", valueName: "time"))
    var to: String?

    @Option(help: ArgumentHelp("The session to undo.", valueName: "session"))
    var by: String?

    @Option(help: ArgumentHelp("Undo only what it did since then.", valueName: "time"))
    var since: String?

    @Flag(name: .customLong("dry-run"), help: "Only print what would be done.")
    var isRehearsal = false

    @Flag(help: "Delete what was made since that time.")
    var exact = false

    @Argument(help: "A directory or a document.", completion: .file())
    var path: String

    func validate() throws {
        guard (to == nil) != (by == nil) else {
            throw ValidationError("Give either --to TIME or --by SESSION.")
        }
        guard by != nil || since == nil else { throw ValidationError("--since needs --by.") }
        guard by == nil || !exact else { throw ValidationError("--exact needs --to.") }
    }

    static func time(_ text: String) throws(VolumeError) -> Int64 {
        if let time = PastTime.parse(text) { return time }
        throw VolumeError(
            .invalid,
            "\"\(text)\" is not a time: write 2026-11-21 14:03, 14:03, yesterday or 3h (ago)")
    }

    func run() throws {
        if let by {
            let since = try since.map { text throws(VolumeError) in
                try RewindCommand.time(text)
            }
            let undo = SessionUndo(
                path: path, choice: SessionName(by), since: since, isRehearsal: isRehearsal)
            return try undo.run(output)
        }
        let time = try RewindCommand.time(to ?? "")
        let document = try Document(path)
        let report = try document.ask(.past, as: RewindReport.self) { $0.time = time }
        if !isRehearsal {
            for (index, step) in report.steps.enumerated() {
                Terminal.show(
                    Progress(
                        step.path.text, fraction: Double(index) / Double(report.steps.count)))
                try take(step, document)
            }
        }
        output.show(report) { text(report, TimeFormat.text(time)) }
    }

    private func take(_ step: RewindReport.Step, _ document: Document) throws(VolumeError) {
        let names = step.path.path ?? []
        let target = names.reduce(document.place.mountPoint) { $0.appending($1) }
        guard let version = step.version else {
            if exact { try RewindCommand.remove(target) }
            return
        }
        if step.kind == "changed" {
            var request = Request(.resolve, path: names)
            request.number = version.number
            request.numbers = []
            _ = try document.client.ask(request, as: ResolutionReport.self)
        } else {
            try RewindCommand.makeDirectories(target.parent, below: document.place.mountPoint)
            let contents = try VersionContents(
                of: version, ofDeleted: step.id, from: document.client)
            try Restoration(contents: contents, target: target, replaces: target.kind != nil).run()
        }
    }

    static func makeDirectories(_ path: FilePath, below root: FilePath) throws(VolumeError) {
        guard path.kind == nil, path != root else { return }
        try makeDirectories(path.parent, below: root)
        if path.withCString({ mkdir($0, 0o777) }) < 0, errno != EEXIST {
            throw VolumeError(.system, "cannot make \(path): \(Errno(errno))")
        }
    }

    static func remove(_ path: FilePath) throws(VolumeError) {
        guard path.kind == .directory else {
            if path.withCString({ unlink($0) }) < 0, errno != ENOENT {
                throw VolumeError(.system, "cannot delete \(path): \(Errno(errno))")
            }
            return
        }
        // The path is a package, which rm(1) removes with all in it.
        guard SystemCalls.output(of: ["rm", "-r", "--", path.description]) != nil else {
            throw VolumeError(.system, "cannot delete the package \(path)")
        }
    }

    private func text(_ report: RewindReport, _ time: String) -> String {
        guard !report.steps.isEmpty else { return "\(path) is what it was at \(time)." }
        let words = [
            "changed": "as version", "deleted": "back as version",
            "newer": exact ? "deleted: made since" : "stays: made since",
        ]
        var table = Table([.init("NAME", isFlexible: true), .init("")])
        for step in report.steps {
            let number = step.version.map { " \($0.number), \(TimeFormat.text($0.saved))" } ?? ""
            table.add([step.path.text, (words[step.kind] ?? step.kind) + number])
        }
        let lead = isRehearsal ? "To make \(path) what it was at \(time):" : "\(path) at \(time):"
        return lead + "\n" + table.text(width: Terminal.width)
    }
}
