import ArgumentParser
import CLinux
import Control
import Model

struct WhoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "who",
        abstract: "Show who has documents open, on this device and on others.",
        discussion: """
            A device tells the hub of a document that a program has open for writing, holds a \
            write claim on or presents, unless it is closed again within a twentieth of a second. \
            Others see that at once, and for at most a minute or two after the device is cut off. \
            Nobody waits because of it, unless .concordattributes says lock=ask \
            or lock=hard about the document. While this device is offline, nothing is shown.
            """)

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A document or directory. Without it: the volume that the working directory is on.",
        completion: .file())
    var path: String?

    func run() throws {
        let document = try Document(path ?? ".")
        let report = try document.ask(.who, as: WhoReport.self) {
            if path == nil { $0.path = nil }
        }
        output.show(report) {
            report.leases.isEmpty
                ? "Nobody is known to have anything open\(path.map { " at \($0)" } ?? "")."
                : WhoCommand.table(report.leases).text(
                    width: Terminal.width, heading: Terminal.bold)
        }
    }

    package static func table(
        _ leases: [WhoReport.Lease], now: Int64 = cl_clock_realtime_ns()
    ) -> Table {
        var table = Table([
            .init("PERSON", isFlexible: true), .init("DEVICE", isFlexible: true), .init("DOES"),
            .init("FOR", .right), .init("PATH", isFlexible: true),
        ])
        for lease in leases {
            table.add([
                lease.user, lease.deviceName + (lease.here ? " (this one)" : ""), lease.use,
                TimeFormat.age(lease.since, now: now), lease.path.text,
            ])
        }
        return table
    }
}

extension WhoReport.Lease {
    /// `ann on laptop edits it`
    package var sentence: String { "\(user) on \(deviceName) \(use) it" }
}
