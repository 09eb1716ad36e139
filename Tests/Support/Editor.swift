import Foundation

/// Common terminal editors, which are controlled by keys like a user does it.
package enum Editor: String, CaseIterable, Sendable {
    case vim, nano, emacs

    /// Opens an existing document, adds a line and saves, as often as `times`, and quits. Returns
    /// what the document must contain then.
    package func save(_ file: String, times: Int) throws -> String {
        let url = URL(filePath: file)
        var text = try String(contentsOf: url, encoding: .utf8)
        let name = url.lastPathComponent
        let terminal = try Terminal(
            command + [name], directory: url.deletingLastPathComponent().path)
        defer { terminal.close() }
        try terminal.wait(for: String(text.split(separator: "\n").last ?? ""))
        for number in 1...times {
            let line = "\(rawValue) saved this, time \(number)."
            text += line + "\n"
            try add(line, in: terminal, lines: text.split(separator: "\n").count)
        }
        try quit(terminal)
        try terminal.waitForEnd()
        return text
    }

    /// Without the user's own settings, but with the editor's defaults for backups, locks and swap
    /// files.
    private var command: [String] {
        switch self {
        case .vim: ["vim", "--clean"]
        case .nano: ["nano", "--ignorercfiles"]
        case .emacs: ["emacs", "-nw", "-Q"]
        }
    }

    /// Adds a last line and saves. Returns when the editor reports that it has saved.
    private func add(_ line: String, in terminal: Terminal, lines: Int) throws {
        switch self {
        case .vim:
            try terminal.press("G", "o")
            try terminal.type(line)
            try terminal.press("Escape")
            try terminal.type(":w")
            try terminal.press("Enter")
            try terminal.wait(for: "\(lines) lines written") {
                $0.contains(" \(lines)L, ") && $0.contains("written")
            }
        case .nano:
            try terminal.press("M-/")
            try terminal.type(line)
            // Nano itself keeps an empty last line, so Enter is not needed.
            try terminal.press("C-s")
            try terminal.wait(for: "Wrote \(lines) lines")
        case .emacs:
            try terminal.press("M->")
            try terminal.type(line)
            try terminal.press("Enter")
            // Typing has removed the message of the previous save.
            try terminal.wait(for: line) { $0.contains(line) && !$0.contains("Wrote ") }
            try terminal.press("C-x", "C-s")
            try terminal.wait(for: "Wrote ")
        }
    }

    private func quit(_ terminal: Terminal) throws {
        switch self {
        case .vim:
            try terminal.type(":q")
            try terminal.press("Enter")
        case .nano: try terminal.press("C-x")
        case .emacs: try terminal.press("C-x", "C-c")
        }
    }
}
