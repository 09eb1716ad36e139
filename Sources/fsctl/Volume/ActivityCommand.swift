import ArgumentParser
import Control
import Glibc
import Model

struct ActivityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "activity",
        abstract: "Show transfers to and from the hub every second, or what a session did."
    )

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Flag(help: "Print the transfers once and exit.")
    var once = false

    @Option(
        help: ArgumentHelp(
            "Show what this session saved, deleted and moved at or below --at instead.",
            valueName: "session"))
    var by: String?

    func run() throws {
        if let by {
            let choice = SessionName(by)
            let report = try volume.document().ask(.sessions, as: SessionsReport.self) {
                choice.fill(&$0, since: nil)
            }
            return output.show(report) { ActivityCommand.text(report) }
        }
        let client = try volume.document().client
        var last: ActivityReport?
        while true {
            let report = try client.ask(Request(.activity), as: ActivityReport.self)
            if once || output.json {
                output.show(report) { ActivityCommand.text(report, since: nil) }
                if once { return }
            } else {
                Terminal.redraw(ActivityCommand.text(report, since: last))
            }
            last = report
            sleep(1)
        }
    }

    private static func text(_ report: SessionsReport) -> String {
        guard !report.acts.isEmpty else { return "\(report.session) has done nothing here." }
        var table = Table([
            .init("WHEN"), .init("BY", isFlexible: true), .init("DID"),
            .init("WHAT", isFlexible: true), .init("", isFlexible: true),
        ])
        for act in report.acts {
            let detail =
                act.number.map { "version \($0)" } ?? act.to.map { "to \($0.text.printable)" }
            table.add([
                TimeFormat.text(act.time),
                [act.person, act.program].filter { !$0.isEmpty }.joined(separator: ", "),
                act.kind, act.path.text.printable, detail ?? "",
            ])
        }
        return report.session + "\n"
            + table.text(width: Terminal.width, heading: Terminal.bold)
    }

    private static func text(_ report: ActivityReport, since last: ActivityReport?) -> String {
        var table = Table([
            .init("WHAT"), .init("WHERE"), .init("DONE", .right), .init("OF", .right),
        ])
        for line in report.lines {
            table.add([
                line.path.printable, line.direction, Amount.size(line.done),
                Amount.size(line.total),
            ])
        }
        let up = last.map { report.bytesUp - $0.bytesUp } ?? report.bytesUp
        let down = last.map { report.bytesDown - $0.bytesDown } ?? report.bytesDown
        let unit = last == nil ? " since the mount" : "/s"
        let total = """
            up \(Amount.size(UInt64(max(0, up))))\(unit), \
            down \(Amount.size(UInt64(max(0, down))))\(unit), \
            \(Amount.count(Int(report.requests), "request")) since the mount
            """
        let lines = table.text(width: Terminal.width, heading: Terminal.bold)
        return report.lines.isEmpty ? total : lines + "\n" + total
    }
}

struct LimitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit",
        abstract: "Limit the bandwidth to and from the hub until the unmount.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Option(help: "Kilobytes a second to the hub; 0 means no limit.")
    var up: Int?

    @Option(help: "Kilobytes a second from the hub; 0 means no limit.")
    var down: Int?

    func validate() throws {
        guard (up ?? 0) >= 0, (down ?? 0) >= 0, up != nil || down != nil else {
            throw ValidationError("Give --up or --down, 0 or more kilobytes a second.")
        }
    }

    func run() throws {
        let done = try volume.ask(.limit, as: Nothing.self) {
            $0.upload = up.map { $0 * 1000 }
            $0.download = down.map { $0 * 1000 }
        }
        output.show(done) { "" }
    }
}

struct BrakeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brake",
        abstract: "Show a mass deletion that is held back, or release it.",
        discussion: """
            Many deletions at once are held back from the hub. Documents that were missing from \
            the working tree when it was mounted do not count as deleted if most are missing.
            """)

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Flag(help: "The deletion is intended: carry it out.")
    var release = false

    func run() throws {
        let report = try volume.ask(.brake, as: BrakeReport.self) { $0.release = release }
        output.show(report) { BrakeCommand.words(report, wasReleased: release) }
    }

    private static func words(_ report: BrakeReport, wasReleased: Bool) -> String {
        var lines: [String] = []
        if report.deletions > 0 {
            lines.append(
                """
                \(Amount.count(report.deletions, "deletion")) of \
                \(Amount.count(report.items, "item")) are held back: other devices still have \
                these. If you meant it, say fsctl brake --release; if not, fsctl undelete.
                """)
        }
        if report.missing > 0 {
            let documents = Amount.count(report.missing, "document")
            lines.append(
                wasReleased
                    ? "\(documents) missing from the working tree: deleted now."
                    : """
                    \(documents) missing from the working tree, not treated as deleted. If you \
                    deleted them, say fsctl brake --release; if not, put the tree back and mount \
                    again.
                    """)
        }
        return lines.isEmpty ? "Nothing is held back." : lines.joined(separator: "\n")
    }
}
