import CLinux
import Glibc
import Logging
import Model
import SystemCalls
import Volume

/// Tells the person at this machine's desktop of documents in conflict: one notification
/// (org.freedesktop.Notifications, by GLib's own program gdbus) that names them, changes as they
/// do, and closes when all are settled, wherever that happened. Where there is no session bus,
/// nothing happens.
final class ConflictNotice: @unchecked Sendable {
    private let volume: Volume
    private let mountPoint: String
    private let log: Logger
    private let lookout = Lookout("notice")

    // Of its thread.

    private var shown: [[Name]] = []
    /// What the desktop calls it.
    private var number: UInt32 = 0

    /// Conflicts come together, after a flight: they are told together.
    private static let groupingSeconds = 1.0

    init(volume: Volume, mountPoint: String, log: Logger) {
        self.volume = volume
        self.mountPoint = mountPoint
        self.log = log
    }

    func start() {
        lookout.start { [self] in
            lookout.rest(seconds: ConflictNotice.groupingSeconds)
            if !lookout.isEnding { tell() }
            return .max / 2
        }
    }

    /// A desktop that does not answer holds nobody up.
    func stop() { lookout.stop(seconds: 5) }

    /// There are other conflicts than before.
    func poke() { lookout.poke() }

    private func tell() {
        guard let paths = try? volume.conflictedPaths(), paths != shown else { return }
        let isMore = !Set(paths).subtracting(shown).isEmpty
        shown = paths
        guard !paths.isEmpty else { return close() }
        // One that was read and put away does not come back because another one is settled.
        guard isMore, let bus = SessionBus() else { return }
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
        // (uint32 7,)
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

/// The bus of the person at the desktop: our own user's; of root's mounts, that of the one user
/// who has a session.
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

    /// What it answered; nil when nobody is there.
    func call(_ method: String, _ arguments: [String]) -> String? {
        let all =
            prefix + [
                "gdbus", "call", "--session", "--timeout", "5",
                "--dest", "org.freedesktop.Notifications",
                "--object-path", "/org/freedesktop/Notifications",
                "--method", "org.freedesktop.Notifications.\(method)", "--",
            ] + arguments
        return output(of: all)
    }
}
