import Foundation

/// A program in a terminal of its own: a tmux server on a private socket, which is ended together
/// with this object.
package final class Terminal {
    private let home: TemporaryDirectory
    private let socket: String
    /// The settings of a program, which it reads when it begins.
    private var settings: TemporaryDirectory?

    /// Starts `command` in `directory`. Its first word is the program.
    package init(
        _ command: [String], directory: String, columns: Int = 120, rows: Int = 40
    ) throws {
        home = try TemporaryDirectory("terminal")
        socket = "\(home.path)/tmux"
        // There must be at least two words, because tmux passes a single one to a shell.
        try tmux(
            ["new-session", "-d", "-x", "\(columns)", "-y", "\(rows)", "-c", directory, "env"]
                + command)
    }

    /// Starts Vim with the project's plugin and without the user's settings.
    ///
    /// - Parameter options: Further options for `:set`.
    package convenience init(
        vim documents: [String], directory: String, options: String = "", program: String = "vim"
    ) throws {
        let plugin = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Packaging/vim").path
        let settings = try TemporaryDirectory("vim")
        let file = try settings.write(
            """
            set nocompatible shortmess+=I ttimeout ttimeoutlen=20 \(options)
            let g:concord_fsctl = '\(Programs.fsctl)'
            set runtimepath^=\(plugin)

            """, to: "vimrc")
        try self.init(
            [program, "-u", file, "-i", "NONE"] + documents, directory: directory)
        self.settings = settings
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

    /// The present text of the screen.
    package func screen() throws -> String { try tmux(["capture-pane", "-p"]) }

    /// Presses keys, which have tmux's names: "Escape", "Enter", "C-x", "M->".
    package func press(_ keys: String...) throws { try tmux(["send-keys"] + keys) }

    /// Types text literally.
    package func type(_ text: String) throws { try tmux(["send-keys", "-l", text]) }

    /// Waits until the screen is as wanted. The error shows the present screen in one line, because
    /// the summary of a test run has only the first line of an error.
    package func wait(
        for what: String, seconds: Double = 20, until wanted: (String) throws -> Bool
    ) throws {
        var shown = ""
        try Support.wait(seconds: seconds, for: "\(what) on the screen, which shows: \(shown)") {
            let screen = try screen()
            shown = screen.split(separator: "\n").joined(separator: " | ")
            return try wanted(screen) ? true : nil
        }
    }

    package func wait(for text: String, seconds: Double = 20) throws {
        try wait(for: "\"\(text)\"", seconds: seconds) { $0.contains(text) }
    }

    /// Waits until the program and the server have ended.
    package func waitForEnd(seconds: Double = 20) throws {
        try Support.wait(seconds: seconds, for: "the program in the terminal to end") {
            (try? tmux(["has-session"])) == nil ? true : nil
        }
    }

    package func close() { _ = try? tmux(["kill-server"]) }
}
