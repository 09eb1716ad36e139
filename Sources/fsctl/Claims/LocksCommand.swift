import ArgumentParser
import CLinux
import Control
import Model

struct LocksCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "locks",
        abstract: "Show who holds a claim on a document, who waits for whom, and who presents it.",
        discussion: """
            Claims are made by fsctl coordinate and by programs that use file coordination. A \
            plain program has an implicit lease while it has a document open. What is open on \
            other devices comes last; only opens of documents with lock=ask in \
            .concordattributes wait for that. With lock=hard they fail, and fsctl status says \
            why.
            """)

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A document or directory. Without it: the volume that the working directory is on.",
        completion: .file())
    var path: String?

    func run() throws {
        let document = try Document(path ?? ".")
        let report = try document.ask(.locks, as: LocksReport.self) {
            if path == nil { $0.path = nil }
        }
        output.show(report) {
            let here =
                report.turns.isEmpty
                ? "Nothing is claimed, waited for or presented\(path.map { " at \($0)" } ?? "")."
                : LocksCommand.table(report.turns).text(
                    width: Terminal.width, heading: Terminal.bold)
            guard let elsewhere = report.elsewhere, !elsewhere.isEmpty else { return here }
            return here + "\n\nOn other devices:\n"
                + WhoCommand.table(elsewhere).text(
                    width: Terminal.width, heading: Terminal.bold)
        }
    }

    package static func table(_ turns: [LocksReport.Turn], now: Int64 = cl_clock_realtime_ns())
        -> Table
    {
        var table = Table([
            .init("PROGRAM", isFlexible: true), .init("DOES"), .init("FOR", .right),
            .init("PATH", isFlexible: true), .init("WAITS FOR", isFlexible: true),
        ])
        for turn in turns {
            table.add([
                who(turn.program, turn.process), deed(turn), TimeFormat.age(turn.since, now: now),
                turn.path.bytes.isEmpty ? "/" : turn.path.text, turn.reason,
            ])
        }
        return table
    }

    /// `reads`, `wants to write (moving)`, `presents`, `has it open (read)`
    private static func deed(_ turn: LocksReport.Turn) -> String {
        let verb = turn.access == "read" ? "read" : "write"
        let way = ["read", "update", "write", ""].contains(turn.access) ? "" : " (\(turn.access))"
        switch (turn.kind, turn.state) {
        case (.presenter, _): return "presents"
        case (_, .waiting), (_, .asking): return "wants to \(verb)\(way)"
        case (.claim, .granted): return "\(verb)s\(way)"
        case (.plain, .granted): return "has it open to \(verb)"
        }
    }
}

/// `vim (4711)`
package func who(_ program: String, _ process: Int32) -> String {
    switch (program.isEmpty, process) {
    case (true, ...0): "an unknown program"
    case (true, _): "process \(process)"
    case (false, ...0): program
    default: "\(program) (\(process))"
    }
}

extension LocksReport.Turn {
    /// `vim (4711) was asked to relinquish; cp (4712) holds a claim`; empty for a program that does
    /// not wait.
    package var reason: String {
        behind.map { "\(who($0.program, $0.process)) \($0.why)" }.joined(separator: "; ")
    }
}
