import ArgumentParser
import Control
import Glibc
import Model
import Volume

struct PurgeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Remove old versions and deleted contents for good, to free their space.",
        discussion: """
            For each document at or below PATH, removes the versions before the one that is \
            shown now, and removes what was deleted there. Versions that are current, in \
            conflict, labelled or not yet at the hub stay; the output says how much stays and \
            why.

            For a directory it asks first: --yes answers, --dry-run only prints what would go.

            TIME is written as for fsctl rewind: 30d is thirty days ago. SIZE is 500M or 2G.

            EXAMPLES
              fsctl purge big.iso
              fsctl purge --before 30d --yes .
              fsctl purge --free 2G --dry-run ~/Concord
            """)

    @OptionGroup var output: OutputOptions

    @Option(
        help: ArgumentHelp(
            "Remove only what was replaced or deleted before then.", valueName: "time"))
    var before: String?

    @Option(help: ArgumentHelp("Remove the oldest until so much is free.", valueName: "size"))
    var free: String?

    @Flag(name: .customLong("dry-run"), help: "Only print what would be removed.")
    var isRehearsal = false

    @Flag(name: .customLong("yes"), help: "Do not ask.")
    var isMeant = false

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        let time = try before.map { (text) throws(VolumeError) in
            if let time = PastTime.parse(text) { return time }
            throw VolumeError(
                .invalid, "\"\(text)\" is not a time: write 30d (ago), yesterday or 2026-11-21")
        }
        let bytes = try free.map { (text) throws(VolumeError) in
            if let bytes = Amount.bytes(text) { return bytes }
            throw VolumeError(.invalid, "\"\(text)\" is not a size: write 500M or 2G")
        }
        for path in paths {
            let document = try Document(path)
            let ask = { (explain: Bool) throws(VolumeError) in
                try document.ask(.purge, as: PurgedReport.self) {
                    ($0.time, $0.bytes, $0.explain) = (time, bytes, explain ? true : nil)
                }
            }
            if !isRehearsal, document.path.kind == .directory, !isMeant {
                guard try isAgreed(path, ask(true)) else { continue }
            }
            let report = try ask(isRehearsal)
            output.show(report) { PurgeCommand.text(report, isRehearsal: isRehearsal) }
        }
    }

    private func isAgreed(_ path: String, _ report: PurgedReport) throws(VolumeError) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else {
            throw VolumeError(
                .invalid,
                "\(path) is a directory: confirm with --yes that all below it is meant; --dry-run "
                    + "prints what that is")
        }
        print(PurgeCommand.text(report, isRehearsal: true))
        print("Remove all of that for good? (y/n)")
        return readLine() == "y"
    }

    static func text(_ report: PurgedReport, isRehearsal: Bool) -> String {
        var gone = [Amount.count(report.versions, "version")]
        if report.contents > 0 {
            gone.append(Amount.count(report.contents, "unrecorded content"))
        }
        let freed = Amount.size(UInt64(max(0, report.bytes)))
        let lead = gone.joined(separator: " and ")
        return
            ([isRehearsal ? "\(lead) would go, about \(freed)" : "\(lead) removed, \(freed) freed"]
            + report.kept.map { "  stays: \(Amount.count($0.count)), \($0.reason)" })
            .joined(separator: "\n")
    }
}
