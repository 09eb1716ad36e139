import Glibc
import Model
import SystemCalls
import Volume

/// The session bus of the person at the desktop: that of the daemon's user or, when root has
/// mounted the volume, that of the only other user with a session.
struct SessionBus {
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

    /// Shows a notification, in place of another one if `number` is not 0. Returns its number; nil
    /// when the desktop does not answer.
    func notify(_ title: String, _ text: String, replacing number: UInt32) -> UInt32? {
        let answer = call(
            "Notify",
            ["Concord", "\(number)", "dialog-warning", title, text, "[]", "{}", "0"])
        // The answer looks like "(uint32 7,)".
        let digits = answer?.drop { $0 != " " }.dropFirst().prefix { $0.isNumber }
        return digits.flatMap { UInt32($0) }
    }

    func close(_ number: UInt32) { _ = call("CloseNotification", ["\(number)"]) }

    /// Calls a method of the desktop's notices. Returns the answer; nil when the call failed.
    private func call(_ method: String, _ arguments: [String]) -> String? {
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
