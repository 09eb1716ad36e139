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
        let width = Int(cl_terminal_width(2))
        guard width > 0 else { return }
        let percent = Int((min(max(progress.fraction, 0), 1) * 100).rounded())
        let line = "\(percent) % \(progress.text)".fitted(to: width - 1)
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(2, bytes, bytes.count)
        showsProgress.store(true, ordering: .relaxed)
    }

    static func clearProgress() {
        guard showsProgress.exchange(false, ordering: .relaxed) else { return }
        let bytes = Array("\r\u{1B}[K".utf8)
        _ = write(2, bytes, bytes.count)
    }
}
