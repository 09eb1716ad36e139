import ArgumentParser
import Control
import Model

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how a volume is, or a document on it.")

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A document or directory. Without it: the volume that the working directory is on.",
        completion: .file())
    var path: String?

    func run() throws {
        let document = try Document(path ?? ".")
        if path == nil || document.place.components.isEmpty {
            let report = try document.client.ask(Request(.status), as: VolumeReport.self)
            output.show(report) { StatusCommand.text(report) }
        } else {
            let report = try document.ask(.status, as: DocumentReport.self)
            output.show(report) { StatusCommand.text(report) }
        }
    }

    private static func text(_ report: VolumeReport) -> String {
        let reason = report.passthroughReason.isEmpty ? "" : " (\(report.passthroughReason))"
        var lines = [
            ("Volume", report.name),
            ("Mounted", "at \(report.mountPoint.text) by process \(report.process)"),
            ("Passthrough", report.passthrough ? "on" : "off\(reason)"),
            ("Store", "\(report.store.text), \(Amount.size(UInt64(max(0, report.storeBytes))))"),
            (
                "Documents",
                "\(Amount.count(report.documents)) with "
                    + "\(Amount.count(report.versions, "version")), in "
                    + "\(Amount.count(report.items, "item"))"
            ),
        ]
        if report.scanning {
            lines.append(("Comparing", "\(Amount.count(report.scanned, "item")) so far"))
        }
        if report.pendingEvents > 0 {
            lines.append(("Recording", Amount.count(report.pendingEvents, "change")))
        }
        if report.waitingToBeCut > 0 {
            lines.append(("To be cut", Amount.count(report.waitingToBeCut, "document")))
        }
        let problems = report.problems.map { ("Problem", $0) }
        return list(lines) + (problems.isEmpty ? "" : "\n" + Terminal.red(list(problems)))
    }

    private static func text(_ report: DocumentReport) -> String {
        var lines = [
            ("Kind", report.kind), ("State", report.state), ("Durability", report.durability),
            ("Size", Amount.size(report.size)), ("Id", report.id),
        ]
        if let current = report.current {
            lines.append(
                ("Versions", "\(Amount.count(report.versions)), the current one is \(current)"))
        }
        return list(lines)
    }

    private static func list(_ lines: [(String, String)]) -> String {
        lines.map { title, text in
            title + String(repeating: " ", count: max(1, 13 - title.count)) + text.printable
        }.joined(separator: "\n")
    }
}
