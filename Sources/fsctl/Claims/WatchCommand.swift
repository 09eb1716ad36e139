import ArgumentParser
import Control
import Glibc
import Model

struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print events of a document, or of all in a directory, as they happen.",
        discussion: "It runs until it is interrupted or the volume is unmounted.")

    @Flag(help: "Print each event as a line of JSON, as in the control protocol.")
    var json = false

    @Argument(
        help: "A document or directory. Without it: the volume that the working directory is on.",
        completion: .file())
    var path: String?

    func run() throws {
        let place = try MountedPath(RawArgument.path(path ?? "."))
        let ended = try Inbox<Bool>()
        let json = json
        let client = try CoordinationClient(socket: place.socket) { push in
            guard let event = push.event else { return }
            Terminal.say(json ? Control.json(event) : Array(WatchCommand.text(event).utf8))
        } ended: {
            ended.put(true)
        }
        var request = Request(.watch, path: place.components)
        if path == nil { request.path = nil }
        _ = try client.ask(request, as: Nothing.self)
        while ended.take().isEmpty { waitForAny(of: [ended.descriptor]) }
        throw VolumeError(.system, "the volume's daemon has ended, so there are no more events")
    }

    /// `14:03:07  vim (4711) changed a.txt`
    package static func text(_ event: WatchEvent, inUTC: Bool = false) -> String {
        let other = "\(event.user ?? "somebody") on \(event.device ?? "another device")"
        let use = event.use ?? "edits"
        let deed =
            switch event.kind {
            case .appeared: "made"
            case .changed: "changed"
            case .moved: "moved"
            case .removed: "removed"
            case .claimed: "holds a claim on"
            case .waiting: "waits for a claim on"
            case .released: "released its claim on"
            case .presented: "presents"
            case .retired: "no longer presents"
            case .conflict: "left a version in conflict with the current one of"
            case .contents: "transfers or evicted contents of"
            case .openedElsewhere: use == "edits" ? "has opened" : use
            case .closedElsewhere: "no longer \(use == "edits" ? "has open" : use)"
            case .openedAnyway: "has opened, although \(other) edits it:"
            case .identity: event.token == nil ? "signed out of the hub" : "signed in to a hub"
            }
        let root = event.kind == .identity ? "" : "/"
        let path = event.path.bytes.isEmpty ? root : event.path.text
        let end = event.to.map { " to \($0.text)" } ?? ""
        let subject =
            event.device == nil || event.kind == .openedAnyway
            ? who(event.program, event.process) : other
        let line = "\(subject) \(deed) \(path)\(end)"
        return "\(TimeFormat.clock(event.time, inUTC: inUTC))  \(line.printable)"
    }
}
