import CLinux
import Control
import Glibc
import Synchronization

/// Output to the terminal, with what must be known of it.
enum Terminal {
    /// The columns of standard output; nil when it is not a terminal.
    static var width: Int? {
        let width = cl_terminal_width(1)
        return width > 0 ? Int(width) : nil
    }

    /// See https://no-color.org: any value but an empty one turns colours off.
    static var hasColour: Bool {
        width != nil && (getenv("NO_COLOR").map { $0.pointee == 0 } ?? true)
    }

    static func bold(_ text: String) -> String { hasColour ? "\u{1B}[1m\(text)\u{1B}[0m" : text }
    static func red(_ text: String) -> String { hasColour ? "\u{1B}[31m\(text)\u{1B}[0m" : text }

    static func printError(_ text: String) {
        let bytes = Array((text + "\n").utf8)
        _ = write(2, bytes, bytes.count)
    }

    private static let showsProgress = Atomic(false)

    /// Shows progress in one line on standard error, which the next call overwrites. Does nothing
    /// when standard error is not a terminal.
    static func show(_ progress: Progress) {
        let percent = Int((min(max(progress.fraction, 0), 1) * 100).rounded())
        note("\(percent) % \(progress.text)")
    }

    /// Like `show`, for progress without a fraction.
    static func note(_ text: String) {
        let width = Int(cl_terminal_width(2))
        guard width > 0 else { return }
        let line = text.printable.fitted(to: width - 1)
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(2, bytes, bytes.count)
        showsProgress.store(true, ordering: .relaxed)
    }

    /// Clears the screen and prints `text`; on something else than a terminal, only prints.
    static func redraw(_ text: String) {
        say(Array(((width == nil ? "" : "\u{1B}[H\u{1B}[2J") + text).utf8))
    }

    static func clearProgress() {
        guard showsProgress.exchange(false, ordering: .relaxed) else { return }
        let bytes = Array("\r\u{1B}[K".utf8)
        _ = write(2, bytes, bytes.count)
    }

    /// Prints a line on standard output without buffering, because another program may be reading
    /// it.
    static func say(_ line: [UInt8]) {
        var rest = (line + [UInt8(ascii: "\n")])[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress!, $0.count) }
            if count < 0, errno == EINTR { continue }
            // The reader has closed the pipe.
            guard count > 0 else { exit(0) }
            rest = rest.dropFirst(count)
        }
    }
}
