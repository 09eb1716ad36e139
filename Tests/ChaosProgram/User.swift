import Foundation
import Support

/// Ordinary users of a machine, whose accounts every Debian system has.
enum User: String, CaseIterable, Sendable {
    case games, news

    /// Each device's own directory has this one, in which every user may create files.
    static let directory = "users"

    static func mayCreate(in path: String) -> Bool { path.hasSuffix("/\(directory)") }
    static func isSaved(_ path: String) -> Bool { path.contains("/\(directory)/") }

    /// A command that runs as this user.
    private func command(_ words: [String]) -> Command {
        Command(
            "setpriv",
            arguments: ["--reuid=\(self)", "--regid=\(self)", "--clear-groups"] + words)
    }

    /// Saves a file by replacing it. The draft has its mode before anybody can open the file. One
    /// that another user's interrupted save has left is removed, because it cannot be written.
    /// Returns the name of an error, or nil.
    func save(_ bytes: Data, to path: String, mode: UInt16) -> String? {
        let script = """
            umask 077
            rm -f "$1.draft"
            cat >"$1.draft"
            chmod "$2" "$1.draft"
            mv -fT "$1.draft" "$1"
            """
        var command = command(["sh", "-ec", script, "-", path, String(mode, radix: 8)])
        command.input = bytes
        command.environment = ["LC_ALL": "C"]
        command.timeoutSeconds = 200
        guard let result = try? command.run() else { return "no end" }
        if result.status == 0 { return nil }
        let known = [
            "No such file or directory": "ENOENT", "Directory nonexistent": "ENOENT",
            "No space left": "ENOSPC",
        ]
        return known.first { result.errors.contains($0.key) }?.value ?? "refused"
    }

    /// Tries as this user to read whatever documents of other users have or had. Returns lines
    /// of `Probe`.
    func probe(
        _ mountPoint: String, _ round: Int, _ documents: [String]
    ) throws -> [Probe.Finding] {
        let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path
        var command = command([program, "probe", mountPoint, "r\(round)"] + documents)
        command.timeoutSeconds = 200
        return try command.succeed().split(separator: "\n")
            .compactMap { Probe.Finding(line: String($0)) }
    }
}
