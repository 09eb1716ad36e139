import ArgumentParser
import Control
import Model
import Volume

struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract:
            "Check tree, journal, chunks and hub against each other; repair what can be proven.",
        discussion: "The exit status is 0 only when no damage is left, otherwise 1.")

    @OptionGroup var output: OutputOptions

    @Flag(name: .customLong("no-repair"), help: "Check only; repair nothing.")
    var looksOnly = false

    @Argument(
        help: "The store of a volume that is not mounted, or any path on a mounted one.",
        completion: .directory)
    var path: String = "."

    func run() throws {
        let report = try examined()
        output.show(report) { DoctorCommand.text(report, path) }
        guard report.sound else { throw ArgumentParser.ExitCode(Control.ExitCode.notGood.rawValue) }
    }

    private func examined() throws(VolumeError) -> DoctorReport {
        let given = RawArgument.path(path)
        let isStore =
            ["journal.sqlite", "lock"].contains { given.appending($0).kind == .file }
            && given.appending("tree").kind != .file
        guard isStore else {
            let document = try Document(path)
            var request = Request(.doctor)
            request.repair = !looksOnly
            return try document.client.ask(
                request, as: DoctorReport.self, timeoutSeconds: 3600, progress: Terminal.show)
        }
        guard let store = String(validating: given.absolute.bytes, as: UTF8.self) else {
            throw VolumeError(.invalid, "the name of the store \(given) is not UTF-8; rename it")
        }
        let findings = try Examination.findings(inStore: store, repair: !looksOnly) {
            text, fraction in
            Terminal.show(Progress(text, fraction: fraction))
        }
        return DoctorReport(
            findings: findings.map {
                .init(severity: $0.severity.rawValue, subject: $0.subject, message: $0.message)
            })
    }

    private static func text(_ report: DoctorReport, _ path: String) -> String {
        let lines = report.findings.map { finding in
            let line = "\(finding.severity): \(finding.subject): \(finding.message)".printable
            return finding.severity == "damage" ? Terminal.red(line) : line
        }
        let damages = report.findings.count { $0.severity == "damage" }
        let verdict =
            report.sound
            ? "\(path) is sound." : "\(path) is not sound: \(Amount.count(damages, "damage"))."
        return (lines + [verdict]).joined(separator: "\n")
    }
}
