import Foundation

/// A program in a terminal of its own: a tmux server on a private socket, ended with it.
package final class Terminal {
    private let home: TemporaryDirectory
    private let socket: String

    /// Starts `command` (its first word the program) in `directory`.
    package init(
        _ command: [String], directory: String, columns: Int = 120, rows: Int = 40
    ) throws {
        home = try TemporaryDirectory("terminal")
        socket = "\(home.path)/tmux"
        // Two words at least: tmux gives a single one to a shell.
        try tmux(
            ["new-session", "-d", "-x", "\(columns)", "-y", "\(rows)", "-c", directory, "env"]
                + command)
    }

    deinit { close() }

    @discardableResult
    private func tmux(_ arguments: [String]) throws -> String {
        var command = Command(
            "tmux", arguments: ["-u", "-S", socket, "-f", "/dev/null"] + arguments)
        command.environment = [
            "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "TMUX": "", "TMPDIR": home.path,
        ]
        return try command.succeed()
    }

    /// What the screen shows now.
    package func screen() throws -> String { try tmux(["capture-pane", "-p"]) }

    /// Presses keys by tmux's names: "Escape", "Enter", "C-x", "M->".
    package func press(_ keys: String...) throws { try tmux(["send-keys"] + keys) }

    /// Types text as it stands.
    package func type(_ text: String) throws { try tmux(["send-keys", "-l", text]) }

    /// Waits until the screen is as wanted; the error shows it as it is.
    package func wait(
        for what: String, seconds: Double = 20, until wanted: (String) -> Bool
    ) throws {
        var last = ""
        try Support.wait(seconds: seconds, for: "\(what) on the screen, which shows:\n\(last)") {
            last = try screen()
            return wanted(last) ? true : nil
        }
    }

    package func wait(for text: String, seconds: Double = 20) throws {
        try wait(for: "\"\(text)\"", seconds: seconds) { $0.contains(text) }
    }

    /// Waits until the program has ended, and with it the server.
    package func waitForEnd(seconds: Double = 20) throws {
        try Support.wait(seconds: seconds, for: "the program in the terminal to end") {
            (try? tmux(["has-session"])) == nil ? true : nil
        }
    }

    package func close() { _ = try? tmux(["kill-server"]) }
}
