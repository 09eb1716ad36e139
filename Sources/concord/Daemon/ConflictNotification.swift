import CLinux
import Glibc
import Logging
import Model
import SystemCalls
import Volume

/// Tells the person at this machine's desktop about documents in conflict. It shows one
/// notification (org.freedesktop.Notifications, through GLib's program gdbus) with their names,
/// updates it, and closes it when all are settled, on whatever device. Without a session bus it
/// does nothing.
final class ConflictNotification: @unchecked Sendable {
    private let volume: Volume
    private let mountPoint: String
    private let log: Logger
    private let poller = BackgroundPoller("notice")

    // Only the poller's thread uses these.

    private var shown: [[Name]] = []
    /// The notification's number on the desktop; 0 before the first one.
    private var number: UInt32 = 0

    /// Seconds to wait for more. After time offline, conflicts come together and should be one
    /// notification.
    private static let groupingSeconds = 1.0

    init(volume: Volume, mountPoint: String, log: Logger) {
        self.volume = volume
        self.mountPoint = mountPoint
        self.log = log
    }

    func start() {
        poller.start { [self] in
            poller.rest(seconds: ConflictNotification.groupingSeconds)
            if !poller.isEnding { tell() }
            return .max / 2
        }
    }

    /// A desktop that does not answer does not delay the unmount for more than 5 seconds.
    func stop() { poller.stop(seconds: 5) }

    /// Call it when documents in conflict may have changed.
    func poke() { poller.poke() }

    private func tell() {
        guard let paths = try? volume.conflicts.paths(), paths != shown else { return }
        let isMore = !Set(paths).subtracting(shown).isEmpty
        shown = paths
        guard !paths.isEmpty else { return close() }
        // A notification that the person has closed is shown again only for new conflicts.
        guard isMore, let bus = SessionBus() else { return }
        // concord-status tells of conflicts itself, with buttons.
        guard !bus.hasStatusIcon else { return }
        let names = paths.prefix(3).compactMap { $0.last?.text }.joined(separator: ", ")
        let more = paths.count > 3 ? " and \(paths.count - 3) more" : ""
        let answer = bus.call(
            "Notify",
            [
                "Concord", "\(number)", "dialog-warning",
                paths.count == 1
                    ? "A document was edited twice at once"
                    : "\(paths.count) documents were edited twice at once",
                "\(names)\(more) in \(mountPoint): all versions are kept. "
                    + "“fsctl resolve” settles them.", "[]", "{}", "0",
            ])
        // The answer looks like "(uint32 7,)".
        let digits = answer?.drop { $0 != " " }.dropFirst().prefix { $0.isNumber }
        if let new = digits.flatMap({ UInt32($0) }) { number = new }
        if answer == nil { log.debug("no desktop was told of conflicts") }
    }

    private func close() {
        guard number != 0 else { return }
        _ = SessionBus()?.call("CloseNotification", ["\(number)"])
        number = 0
    }
}

/// The session bus of the person at the desktop: that of the daemon's user or, when root has
/// mounted the volume, that of the only other user with a session.
private struct SessionBus {
    private let prefix: [String]

    init?() {
        if geteuid() != 0 || getenv("DBUS_SESSION_BUS_ADDRESS") != nil {
            let own = "/run/user/\(geteuid())/bus"
            guard getenv("DBUS_SESSION_BUS_ADDRESS") != nil || access(own, F_OK) == 0 else {
                return nil
            }
            prefix = []
            return
        }
        var users: [Name] = []
        guard let directory = try? Descriptor(opening: "/run/user", flags: O_RDONLY | O_DIRECTORY)
        else { return nil }
        try? forEachName(in: directory.raw) { users.append($0) }
        let people = users.compactMap { UInt32($0.text) }.filter {
            $0 != 0 && access("/run/user/\($0)/bus", F_OK) == 0
        }
        guard people.count == 1, let account = getpwuid(people[0]) else { return nil }
        prefix = [
            "runuser", "-u", String(cString: account.pointee.pw_name), "--", "env",
            "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/\(people[0])/bus",
        ]
    }

    /// Whether the status icon of the package concord-desktop runs in the session.
    var hasStatusIcon: Bool {
        let answer = call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "NameHasOwner",
            ["local.concord.Desktop"])
        return answer?.contains("true") == true
    }

    /// Calls a method of the desktop's notices. Returns the answer; nil when the call failed.
    func call(_ method: String, _ arguments: [String]) -> String? {
        call(
            "org.freedesktop.Notifications", "/org/freedesktop/Notifications", method, arguments)
    }

    private func call(_ name: String, _ path: String, _ method: String, _ arguments: [String])
        -> String?
    {
        let all =
            prefix + [
                "gdbus", "call", "--session", "--timeout", "5", "--dest", name,
                "--object-path", path, "--method", "\(name).\(method)", "--",
            ] + arguments
        return output(of: all)
    }
}
