import CLinux
import Control
import Glibc
import Synchronization

/// What the programs know of the screen.
enum Terminal {
    /// Columns of standard output; nil when it is not a terminal.
    static var width: Int? {
        let width = cl_terminal_width(1)
        return width > 0 ? Int(width) : nil
    }

    /// https://no-color.org: any value but none.
    static var hasColour: Bool {
        width != nil && (getenv("NO_COLOR").map { $0.pointee == 0 } ?? true)
    }

    static func bold(_ text: String) -> String { hasColour ? "\u{1B}[1m\(text)\u{1B}[0m" : text }
    static func red(_ text: String) -> String { hasColour ? "\u{1B}[31m\(text)\u{1B}[0m" : text }

    static func complain(_ text: String) {
        let bytes = Array((text + "\n").utf8)
        _ = write(2, bytes, bytes.count)
    }

    private static let showsProgress = Atomic(false)

    /// One line on standard error that the next one overwrites; nothing where it is no terminal.
    static func show(_ progress: Progress) {
        let percent = Int((min(max(progress.fraction, 0), 1) * 100).rounded())
        note("\(percent) % \(progress.text)")
    }

    /// As `show`, for what has no measure.
    static func note(_ text: String) {
        let width = Int(cl_terminal_width(2))
        guard width > 0 else { return }
        let line = text.printable.fitted(to: width - 1)
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(2, bytes, bytes.count)
        showsProgress.store(true, ordering: .relaxed)
    }

    /// Instead of all that the screen shows; one block after the other where it is no terminal.
    static func redraw(_ text: String) {
        say(Array(((width == nil ? "" : "\u{1B}[H\u{1B}[2J") + text).utf8))
    }

    static func clearProgress() {
        guard showsProgress.exchange(false, ordering: .relaxed) else { return }
        let bytes = Array("\r\u{1B}[K".utf8)
        _ = write(2, bytes, bytes.count)
    }

    /// A line on standard output, at once: somebody reads while we go on.
    static func say(_ line: [UInt8]) {
        var rest = (line + [UInt8(ascii: "\n")])[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress!, $0.count) }
            if count < 0, errno == EINTR { continue }
            // Nobody reads any more.
            guard count > 0 else { exit(0) }
            rest = rest.dropFirst(count)
        }
    }
}
