import ArgumentParser
import Control
import Glibc
import Model

struct ActivityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "activity", abstract: "Show what goes to the hub and comes from it, live.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Flag(help: "Print once and end.")
    var once = false

    func run() throws {
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
        commandName: "limit", abstract: "Limit how much of the line is used, until the unmount.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Option(help: "Kilobytes a second to the hub; 0: as fast as it goes.")
    var up: Int?

    @Option(help: "Kilobytes a second from the hub; 0: as fast as it goes.")
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
        abstract: "Show a mass deletion that is held back from the hub, or let it go.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Flag(help: "It is meant: tell the hub.")
    var release = false

    func run() throws {
        let report = try volume.ask(.brake, as: BrakeReport.self) { $0.release = release }
        output.show(report) {
            report.deletions == 0
                ? "Nothing is held back."
                : """
                \(Amount.count(report.deletions, "deletion")) of \
                \(Amount.count(report.items, "item")) are held back: other devices still have \
                these. If it is meant: fsctl brake --release. If not: fsctl undelete.
                """
        }
    }
}
