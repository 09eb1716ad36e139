import CLinux
import Control
import Glibc
import Model

/// A session as a person writes it: `agent-7`, a prefix of that, or `anna:agent-7`.
struct SessionName {
    var session: String
    var person: String?

    init(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        session = String(parts.last ?? "")
        person = parts.count == 2 ? String(parts[0]) : nil
    }

    func fill(_ request: inout Request, since: Int64?) {
        request.session = session
        request.person = person
        request.time = since
    }
}

/// Undoes what one session did at or below a path. It works in a session of its own, so that it can
/// be undone in the same way.
struct SessionUndo {
    let path: String
    let choice: SessionName
    let since: Int64?
    let isRehearsal: Bool

    private static let prefix = "rewind-"

    /// The result of one step.
    private struct Line {
        var path: RawText
        var text: String
        var isDone = true
    }

    func run(_ output: OutputOptions) throws {
        let label = isRehearsal ? nil : try SessionUndo.ownSession()
        let document = try Document(path)
        var report = try document.ask(.past, as: RewindReport.self) {
            choice.fill(&$0, since: since)
        }
        var lines: [Line] = []
        for (index, step) in report.steps.enumerated() {
            Terminal.show(
                Progress(
                    step.path.text, fraction: Double(index) / Double(report.steps.count)))
            let line: Line
            do throws(VolumeError) {
                line = try take(step, document)
            } catch {
                line = Line(
                    path: step.path, text: "stays as it is: \(error.message)", isDone: false)
            }
            if !line.isDone { report.steps[index].kind = "kept" }
            if !line.isDone, report.steps[index].reason == nil {
                report.steps[index].reason = line.text
            }
            lines.append(line)
        }
        output.show(report) { text(lines, report.session ?? choice.session, label) }
    }

    /// The daemon reads the session of a program in the environment with which it was executed.
    private static func ownSession() throws(VolumeError) -> String {
        if let known = getenv(WorkSession.variable).map({ String(cString: $0) }),
            known.hasPrefix(prefix)
        {
            return known
        }
        let number = String(UInt32.random(in: 0 ... .max), radix: 16)
        let label = prefix + String(repeating: "0", count: 8 - number.count) + number
        setenv(WorkSession.variable, label, 1)
        var words = CommandLine.arguments.map { strdup($0) } + [nil]
        execv("/proc/self/exe", &words)
        throw VolumeError(
            .system, "cannot execute this program again: \(String(cString: strerror(errno)))")
    }

    private func take(_ step: RewindReport.Step, _ document: Document) throws(VolumeError) -> Line {
        let place = { (path: RawText) in
            (path.path ?? []).reduce(document.place.mountPoint) { $0.appending($1) }
        }
        let number = step.version.map { "version \($0.number), \(TimeFormat.text($0.saved))" } ?? ""
        switch step.kind {
        case "changed", "merged", "resolved": return try revert(step, document)
        case "created":
            if !isRehearsal { try RewindCommand.remove(place(step.path)) }
            return Line(path: step.path, text: "deleted: the session made it")
        case "moved":
            guard let origin = step.origin else { break }
            if !isRehearsal { try move(place(step.path), to: place(origin), document) }
            return Line(path: step.path, text: "back at \(origin.text.printable)")
        case "deleted":
            if !isRehearsal { try restore(step, at: place(step.path), document) }
            return Line(path: step.path, text: "back as \(number)")
        default: break
        }
        return Line(
            path: step.path, text: "stays as it is: \(step.reason ?? "it was changed since")",
            isDone: false)
    }

    private func revert(_ step: RewindReport.Step, _ document: Document) throws(VolumeError) -> Line
    {
        var request = Request(.revert, path: step.path.path ?? [])
        choice.fill(&request, since: since)
        request.program = "rewind"
        if isRehearsal { request.explain = true }
        let report = try document.client.ask(request, as: RevertReport.self)
        switch report.outcome {
        case "changed":
            let number = step.version.map { "\($0.number), \(TimeFormat.text($0.saved))" } ?? ""
            return Line(path: step.path, text: "as version \(number)")
        case "merged":
            return Line(path: step.path, text: "without the session's edits, with those of others")
        case "conflict":
            return Line(
                path: step.path,
                text: "in conflict with what it was before the session (\(report.reason ?? ""))")
        default: return Line(path: step.path, text: "its versions in conflict are resolved")
        }
    }

    private func move(_ path: FilePath, to origin: FilePath, _ document: Document)
        throws(VolumeError)
    {
        try RewindCommand.makeDirectories(origin.parent, below: document.place.mountPoint)
        // RENAME_NOREPLACE
        let result = path.withCString { from in
            origin.withCString { cl_renameat2(AT_FDCWD, from, AT_FDCWD, $0, 1) }
        }
        if result == -EEXIST { throw VolumeError(.busy, "\(origin) is there already") }
        if result < 0 { throw VolumeError(.system, "cannot move \(path) to \(origin)") }
    }

    private func restore(_ step: RewindReport.Step, at target: FilePath, _ document: Document)
        throws(VolumeError)
    {
        guard let version = step.version else { return }
        try RewindCommand.makeDirectories(target.parent, below: document.place.mountPoint)
        let contents = try VersionContents(of: version, ofDeleted: step.id, from: document.client)
        try Restoration(contents: contents, target: target, replaces: false).run()
    }

    private func text(_ lines: [Line], _ session: String, _ label: String?) -> String {
        guard !lines.isEmpty else { return "\(session) has done nothing in \(path) to undo." }
        var table = Table([.init("NAME", isFlexible: true), .init("")])
        for line in lines { table.add([line.path.text.printable, line.text]) }
        let lead = isRehearsal ? "To undo \(session) in \(path):" : "Undone \(session) in \(path):"
        let text = lead + "\n" + table.text(width: Terminal.width)
        guard let label, lines.contains(where: \.isDone) else { return text }
        return text + "\nTo take this back: fsctl rewind \(quoted(path)) --by \(label)"
    }

    /// Quotes the text for a shell.
    private func quoted(_ path: String) -> String {
        let plain = path.utf8.allSatisfy {
            switch $0 {
            case 0x61...0x7A, 0x41...0x5A, 0x30...0x39: true
            default: "._/@+=-".utf8.contains($0)
            }
        }
        return plain && !path.isEmpty ? path : "'" + path.replacing("'", with: "'\\''") + "'"
    }
}
