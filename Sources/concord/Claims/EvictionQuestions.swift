import CLinux
import Control
import Coordination
import Glibc
import Model
import Synchronization
import Volume

/// Asks the programs that show a document before its contents are evicted.
final class EvictionQuestions: Sendable {
    /// How long programs have time to answer. Eviction frees space, so it does not wait for ever.
    static let secondsMax = 10.0

    private struct Question {
        var unanswered: Set<PresenterID>
        var refusal: (presenter: PresenterID, reason: String)?
    }

    private let signal = Signal()
    private let questions = Mutex<[ClaimID: Question]>([:])

    /// Why the contents of a document stay on this device: the end of a sentence that begins with
    /// its path. Nil when no program shows it, or when all that do agree.
    func obstacle(toEvicting names: [Name], _ desk: ClaimService) -> String? {
        let presenters = desk.arbiter.presenters(of: desk.session.path(names))
        guard !presenters.isEmpty else { return nil }
        func shown(_ id: PresenterID, _ reason: String) -> String {
            let process = presenters.first { $0.id == id }?.process ?? 0
            return "stays here while \(desk.session.program(process)) (\(process)) shows it"
                + "\(reason): close it there, or use --force."
        }
        let deaf = presenters.first { !$0.hears.contains(.accommodateEviction) }
        if let deaf { return shown(deaf.id, "") }
        let id = desk.arbiter.reserve()
        questions.withLock { $0[id] = Question(unanswered: Set(presenters.map(\.id))) }
        defer { questions.withLock { $0[id] = nil } }
        for presenter in presenters {
            let isSent = desk.clients.withLock {
                $0.push(.accommodateEviction, turn: id, to: presenter.id)
            }
            if !isSent { leave([presenter.id]) }
        }
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: Self.secondsMax)
        _ = signal.wait(until: deadline) {
            questions.withLock { $0[id]?.unanswered.isEmpty != false || $0[id]?.refusal != nil }
        }
        let question = questions.withLock { $0[id] }
        if let (id, reason) = question?.refusal { return shown(id, " (\(reason))") }
        return question?.unanswered.first.map { shown($0, " and does not answer") }
    }

    /// Why the contents of a document stay on this device although no program is asked: another
    /// sentence of that kind, if a program has an explicit claim. Also the program that requests
    /// the eviction, because it could not use the contents under its claim.
    static func claim(on names: [Name], _ desk: ClaimService) -> String? {
        guard let process = desk.arbiter.holder(ofContentsAt: desk.session.path(names)) else {
            return nil
        }
        return "stays here while \(desk.session.program(process)) (\(process)) has a claim on it."
    }

    /// Returns false if this answers another question.
    func answer(_ presenter: PresenterID, _ id: ClaimID, _ failure: String?) -> Bool {
        signal.change {
            questions.withLock { questions in
                guard questions[id] != nil else { return false }
                let isAwaited = questions[id]?.unanswered.remove(presenter) != nil
                if isAwaited, let failure { questions[id]?.refusal = (presenter, failure) }
                return true
            }
        }
    }

    /// These presenters do not show anything any more.
    func leave(_ presenters: some Sequence<PresenterID>) {
        signal.change {
            questions.withLock { questions in
                for id in questions.keys { questions[id]?.unanswered.subtract(presenters) }
            }
        }
    }
}
