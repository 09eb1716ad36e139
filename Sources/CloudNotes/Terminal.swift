import Dispatch
import Foundation
import Glibc

/// The terminal in raw mode, with its alternate screen, until it is closed.
@MainActor final class Terminal {
    private var former = termios()
    private var signals: [any DispatchSourceSignal] = []

    /// - Parameter event: Called with each key, on a thread of its own, when the size changes, and
    ///   when a signal ends the program.
    init(_ event: @escaping @Sendable (Event) -> Void) throws {
        guard isatty(0) != 0, isatty(1) != 0, tcgetattr(0, &former) == 0 else {
            throw Failure("cloud-notes needs a terminal: start it in one")
        }
        var raw = former
        cfmakeraw(&raw)
        tcsetattr(0, TCSAFLUSH, &raw)
        put("\u{1B}[?1049h")
        for (number, happening) in [(SIGWINCH, Event.resized), (SIGTERM, .ended), (SIGHUP, .ended)]
        {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
            source.setEventHandler { event(happening) }
            source.resume()
            signals.append(source)
        }
        Thread.detachNewThread { Terminal.read(event) }
    }

    func close() {
        put("\u{1B}[?25h\u{1B}[?1049l")
        tcsetattr(0, TCSAFLUSH, &former)
    }

    /// Columns and rows.
    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    func show(_ screen: Screen) { put(screen.drawing) }

    private func put(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            if count < 0, errno != EINTR, errno != EAGAIN { return }
            rest = rest.dropFirst(max(0, count))
        }
    }

    nonisolated private static func read(_ event: (Event) -> Void) {
        var keys = KeyReader()
        var piece = [UInt8](repeating: 0, count: 4096)
        while true {
            // The bytes of an escape sequence arrive together, so a lone escape byte is the Escape
            // key.
            var input = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
            if keys.isWaiting, poll(&input, 1, 50) == 0 {
                for key in keys.end() { event(.key(key)) }
                continue
            }
            let count = Glibc.read(0, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return event(.ended) }
            for key in keys.read(piece[..<count]) { event(.key(key)) }
        }
    }
}

/// The events that the program handles.
enum Event: Sendable {
    case key(Key)
    case resized
    /// Another program or device has changed something in the directory.
    case listChanged
    case ended
}

struct Failure: LocalizedError {
    let errorDescription: String?
    init(_ sentence: String) { errorDescription = sentence }
}
