import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A presenter of one item, from its registration until it has been deleted or the input ends.
final class Presentation {
    enum AnswerMode {
        case neverAnswer
        case fromStandardInput
        case answer(save: Save, afterSeconds: Double)
    }

    enum Save {
        case nothing
        /// The text that has not been saved yet.
        case text(String)
        /// A shell command that saves, run at each request.
        case command(String)
        /// The reason for which saving and deletion are refused.
        case refusal(String)
    }

    private enum ConnectionEvent: Sendable {
        case message(PresenterMessage)
        case ended
    }

    private var answerMode: AnswerMode
    private let mountPoint: FilePath
    private var components: [Name]
    private let client: CoordinationClient
    private let events: Inbox<ConnectionEvent>
    /// The last message of each turn that asked: an answer names only the turn.
    private var asked: [Int: PresenterMessage.Kind] = [:]
    /// The answers to be given: the time (monotonic, nanoseconds) and the message.
    private var due: [(time: Int64, message: PresenterMessage)] = []
    private var input = LineBuffer()
    private var hasEnded = false
    private static let number = 1

    init(of place: MountedPath, answerMode: AnswerMode) throws(VolumeError) {
        self.answerMode = answerMode
        mountPoint = place.mountPoint
        components = place.components
        events = try Inbox()
        client = try CoordinationClient(socket: place.socket) { [events] push in
            if let message = push.message { events.put(.message(message)) }
        } ended: { [events] in
            events.put(.ended)
        }
    }

    private var path: FilePath { mountPoint.appending(components) }

    /// Returns when the item has been let go, or the input has ended.
    func run(hears: [PresenterMessage.Kind], process: Int32?) throws(VolumeError) {
        var request = Request(.present, path: components)
        request.presenter = Presentation.number
        request.hears = hears.map(\.rawValue)
        request.process = process
        _ = try client.ask(request, as: Nothing.self)
        Terminal.say(json(MessageLine(kind: "presenting", path: RawText(bytes: path.bytes))))
        while !hasEnded {
            let next = due.map(\.time).min().map { Double($0 - cl_clock_monotonic_ns()) / 1e9 }
            if case .fromStandardInput = answerMode {
                waitForAny(of: [events.descriptor, 0], seconds: next)
                try readInput()
            } else {
                waitForAny(of: [events.descriptor], seconds: next)
            }
            for item in events.take() {
                guard case .message(let message) = item else {
                    throw VolumeError(.system, "the volume's daemon has ended")
                }
                hear(message)
            }
            answerWhatIsDue()
        }
        client.close()
    }

    private func hear(_ message: PresenterMessage) {
        if message.kind == .moved, let to = message.to?.path { components = to }
        Terminal.say(json(MessageLine(message, on: mountPoint)))
        guard message.kind.isAsking, let turn = message.turn else { return }
        asked[turn] = message.kind
        if case .answer(_, let seconds) = answerMode {
            due.append(
                (cl_clock_monotonic_ns() + Timestamp.span(seconds: min(seconds, 1e9)), message))
        }
    }

    private func answerWhatIsDue() {
        let now = cl_clock_monotonic_ns()
        while let first = due.first, first.time <= now {
            due.removeFirst()
            answer(first.message.turn ?? 0, failure: failure(of: first.message.kind))
        }
    }

    /// Does what a message asked for. Returns why it could not, or nil.
    private func failure(of kind: PresenterMessage.Kind) -> String? {
        guard case .answer(let save, let seconds) = answerMode else { return nil }
        switch (save, kind) {
        case (.refusal(let sentence), .save), (.refusal(let sentence), .accommodateDeletion),
            (.refusal(let sentence), .accommodateSubitemDeletion):
            return sentence
        case (.text(let text), .save):
            let failure = write(text)
            if failure == nil { answerMode = .answer(save: .nothing, afterSeconds: seconds) }
            return failure
        case (.command(let command), .save): return run(command)
        default: return nil
        }
    }

    private func answer(_ turn: Int, failure: String?) {
        var answers: [Request] = []
        if asked.removeValue(forKey: turn) == .accommodateDeletion, failure == nil {
            // After the deletion another item may be at the path, so the presenter retires first.
            answers.append(Request(.retire))
            hasEnded = true
        }
        answers.append(Request(.answer))
        for var request in answers {
            request.presenter = Presentation.number
            if request.verb == Verb.answer.rawValue {
                (request.turn, request.failure) = (turn, failure)
            }
            // The daemon may no longer need the answer. That is no error.
            _ = try? client.ask(request, as: Nothing.self)
        }
    }

    private func write(_ text: String) -> String? {
        let bytes = Array((text + "\n").utf8)
        do throws(Errno) {
            let flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC
            let raw = path.withCString { cl_openat(AT_FDCWD, $0, flags, 0o666) }
            let file = Descriptor(owning: try check(raw))
            let count = bytes.withUnsafeBytes { cl_pwrite(file.raw, $0.baseAddress, $0.count, 0) }
            return try check(count) == bytes.count ? nil : "\(path) could not be written whole"
        } catch {
            return "\(path) could not be written: \(error)"
        }
    }

    private func run(_ command: String) -> String? {
        path.withCString { _ = setenv("CONCORD_PATH", $0, 1) }
        var words: [UnsafeMutablePointer<CChar>?] =
            ["sh", "-c", command].map { (word: String) in strdup(word) } + [nil]
        defer { for word in words { free(word) } }
        // Standard output is reserved for messages.
        let process = cl_spawn("sh", &words, -1, 2, 2, -1, 0)
        guard process > 0 else { return "the command that saves could not be started" }
        let status = cl_exit_status(cl_wait_process(process))
        return status == 0 ? nil : "the command that saves ended with \(status)"
    }
}

// Answers on standard input.
extension Presentation {
    private struct InputLine: Decodable {
        var turn: Int
        var failure: String?
    }

    private func readInput() throws(VolumeError) {
        var (descriptor, wanted, ready) = (Int32(0), Int16(POLLIN), Int16(0))
        guard cl_poll(&descriptor, &wanted, &ready, 1, 0) > 0 else { return }
        var piece = [UInt8](repeating: 0, count: 1 << 12)
        let count = read(0, &piece, piece.count)
        if count < 0, errno == EINTR { return }
        guard count > 0 else {
            hasEnded = true
            return
        }
        input.append(piece[..<count])
        while let line = input.next() {
            do throws(VolumeError) {
                let told = try value(InputLine.self, from: line)
                answer(told.turn, failure: told.failure)
            } catch {
                Terminal.printError("fsctl: \(error.message)")
            }
        }
    }
}

/// A line that `fsctl present` prints.
package struct MessageLine: Encodable {
    package var kind: String
    package var turn: Int?
    package var path: RawText?
    package var to: RawText?
    package var version: String?

    init(kind: String, path: RawText) {
        self.kind = kind
        self.path = path
    }

    /// Paths become absolute, below the mount point.
    package init(_ message: PresenterMessage, on mountPoint: FilePath) {
        kind = message.kind.rawValue
        turn = message.turn
        path = message.path.map { RawText(bytes: mountPoint.appending($0.path ?? []).bytes) }
        to = message.to.map { RawText(bytes: mountPoint.appending($0.path ?? []).bytes) }
        version = message.version
    }
}
