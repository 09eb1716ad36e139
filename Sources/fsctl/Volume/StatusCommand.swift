import ArgumentParser
import Control
import Model

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the state of a volume, or of a document on it.")

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
        let why = report.transportReason ?? ""
        var lines = [
            ("Volume", report.name),
            ("Mounted", "at \(report.mountPoint.text) by process \(report.process)"),
            ("Passthrough", report.passthrough ? "on" : "off\(reason)"),
            ("Requests", (report.transport ?? "/dev/fuse") + (why.isEmpty ? "" : " (\(why))")),
            ("Store", "\(report.store.text), \(size(report.storeBytes))\(parts(report))"),
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
        if let count = report.conflicts, let line = Conflicts.line(count, in: "on this volume") {
            lines.append(("Conflicts", line))
            if let open = report.unexaminedConflicts, open > 0 {
                lines.append(("", "\(open) of them may be merged in the next seconds"))
            }
        }
        if let hub = report.hub { lines += StatusCommand.lines(hub) }
        lines += (report.notices ?? []).map { ("Notice", $0) }
        var problems = report.problems.map { ("Problem", $0) }
        for (path, reason) in (report.hub?.problems ?? [:]).sorted(by: { $0.key < $1.key }) {
            problems.append(("Problem", "\(path): \(reason)"))
        }
        return list(lines) + (problems.isEmpty ? "" : "\n" + Terminal.red(list(problems)))
    }

    private static func size(_ bytes: Int64) -> String { Amount.size(UInt64(max(0, bytes))) }

    /// What takes the store's space. An empty volume's store takes some, too, so the total needs an
    /// explanation.
    private static func parts(_ report: VolumeReport) -> String {
        var parts: [String] = []
        if let bytes = report.journalBytes, bytes > 0 { parts.append("\(size(bytes)) journal") }
        if let bytes = report.reserveBytes, bytes > 0 {
            parts.append("\(size(bytes)) reserved for the journal until the disk is full")
        }
        if let bytes = report.freeableBytes, bytes > 0 {
            parts.append("\(size(bytes)) removed when space is needed")
        }
        return parts.isEmpty ? "" : ": " + parts.joined(separator: ", ")
    }

    private static func lines(_ hub: HubReport) -> [(String, String)] {
        let reason = hub.reason.isEmpty ? "" : ": \(hub.reason)"
        var lines = [("Hub", "\(hub.address) as \(hub.user), \(hub.state)\(reason)")]
        if let line = shared(hub) { lines.append(("Volume", line)) }
        let waiting = hub.unsent + hub.sending
        let stays = hub.role == "reader" || hub.state == "removed"
        let all = hub.refused == 0 ? "everything" : "everything but what is refused"
        lines.append(
            (
                "At the hub",
                waiting == 0
                    ? all
                    : "all but \(Amount.count(waiting, "change")), "
                        + (stays ? "which stay on this machine" : "on their way")
            ))
        for document in hub.waiting {
            lines.append(("", "\(document.path.text) \(document.reason)"))
        }
        lines += moving(hub)
        if hub.due > 0 { lines.append(("To come", Amount.count(hub.due, "change"))) }
        if hub.stuck > 0 {
            lines.append(("Stuck", "\(Amount.count(hub.stuck, "item")); see below what to do"))
        }
        if hub.refused > 0 {
            lines.append(
                ("Refused", "\(Amount.count(hub.refused, "item")), which stay on this device only"))
        }
        if hub.dataless > 0 {
            lines.append(("Not here", "the contents of \(Amount.count(hub.dataless, "document"))"))
        }
        if hub.held > 0 {
            lines.append(
                (
                    "Held",
                    "\(Amount.count(hub.held, "deletion")); fsctl brake says what to do"
                ))
        }
        return lines
    }

    /// Whose volume it is and what this account may do; nil for a volume of one account.
    private static func shared(_ hub: HubReport) -> String? {
        guard let role = hub.role, let members = hub.members, hub.owner != nil || members > 1
        else { return nil }
        let owner = hub.owner.map { " of \($0)" } ?? ""
        let may =
            switch role {
            case "owner": "you own it"
            case "reader": "you are a reader, so it is read-only"
            default: "you are an editor"
            }
        return "\(hub.volume)\(owner), \(Amount.count(members, "member")): \(may)"
    }

    private static func moving(_ hub: HubReport) -> [(String, String)] {
        var lines: [(String, String)] = []
        if hub.rateUp + hub.rateDown > 0 || !hub.moving.isEmpty {
            let (up, down) = (UInt64(max(0, hub.rateUp)), UInt64(max(0, hub.rateDown)))
            lines.append(("Moving", "up \(Amount.size(up))/s, down \(Amount.size(down))/s"))
        }
        for line in hub.moving {
            lines.append(
                (
                    "",
                    "\(line.path) \(line.direction), \(Amount.size(line.done)) of "
                        + "\(Amount.size(line.total))"
                ))
        }
        return lines
    }

    private static func text(_ report: DocumentReport) -> String {
        let devices = report.devices.map { ", on \(Amount.count($0, "device"))" } ?? ""
        var lines = [
            ("Kind", report.kind), ("State", report.state),
            ("Durability", report.durability + devices),
            ("Size", Amount.size(report.size)), ("Id", report.id),
        ]
        if let conflicts = report.conflicts {
            lines.append(("Conflicts", Amount.count(conflicts)))
        }
        if let current = report.current {
            lines.append(
                ("Versions", "\(Amount.count(report.versions)), the current one is \(current)"))
        }
        for (index, lease) in (report.elsewhere ?? []).enumerated() {
            lines.append((index == 0 ? "Elsewhere" : "", lease.sentence))
        }
        if let lock = report.lock { lines.append(("Lock", lock.sentence())) }
        return list(lines)
    }

    private static func list(_ lines: [(String, String)]) -> String {
        lines.map { title, text in
            title + String(repeating: " ", count: max(1, 13 - title.count)) + text.printable
        }.joined(separator: "\n")
    }
}
