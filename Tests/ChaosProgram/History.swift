import Foundation
import Support
import Synchronization

/// Records events in memory, and line by line in a file.
final class History: Sendable {
    private struct State {
        var events: [Event] = []
        var round = 0
    }

    private let state = Mutex(State())
    private let file: FileHandle?
    private let beginning = ContinuousClock.now

    init(file path: String? = nil) throws {
        guard let path else {
            file = nil
            return
        }
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let file = FileHandle(forWritingAtPath: path)
        else { throw SupportError("\(path) cannot be made") }
        self.file = file
    }

    var round: Int { state.withLock { $0.round } }
    func beginRound() { state.withLock { $0.round += 1 } }

    func events(ofRound round: Int) -> [Event] {
        state.withLock { $0.events.filter { $0.round == round } }
    }

    /// - Parameter round: The round of the event; the present one if it is left out.
    func note(_ event: Event, round: Int? = nil) {
        var event = event
        event.at = Int((ContinuousClock.now - beginning) / .milliseconds(1))
        state.withLock {
            event.round = round ?? $0.round
            $0.events.append(event)
            try? file?.write(contentsOf: event.line)
        }
    }

    /// Removes the events of a judged round from memory, except the trees, which are compared
    /// later. The file keeps all events.
    func forget(round: Int) {
        state.withLock { state in
            state.events.removeAll { $0.round == round && $0.kind != .item }
        }
    }
}
