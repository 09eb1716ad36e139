import CLinux
import Control
import Model
import Mount
import Synchronization
import Volume

/// A claim that holds on all devices: the documents that it writes are granted to this device until
/// it ends. Before that, programs on other devices are asked to save and to let go of them, as by an
/// open that waits (`lock=ask`).
final class EverywhereClaim: Sendable {
    private struct State {
        var rest: [Identifier]
        var taken: [Identifier] = []
        var asked: (document: Identifier, number: UInt64)?
        var isOver = false
    }

    private let documents: OpenDocuments
    private let session: MountSession
    private let all: [Identifier]
    private let isTry: Bool
    private let answer: @Sendable (VolumeError?) -> Void
    private let state: Mutex<State>
    /// Until when it waits for editors on other devices, in monotonic nanoseconds.
    private let editorsEnd: Int64

    /// How long it waits for editors on other devices.
    private static let patience = 15.0
    private static let pause = 0.2

    /// - Parameter answer: Called once, on any thread, unless the claim is ended before. After a
    ///   failure the claim must be ended, too.
    init(
        _ names: [[Name]], _ documents: OpenDocuments, _ session: MountSession, isTry: Bool,
        _ answer: @escaping @Sendable (VolumeError?) -> Void
    ) throws(VolumeError) {
        var all: [Identifier] = []
        for path in names {
            guard let document = try documents.document(at: path) else {
                throw VolumeError(
                    .invalid,
                    "\(path.shown) is no document that the volume has: claims that hold on all "
                        + "devices are about documents, not about directories and new names")
            }
            // No other device can have what the hub does not know.
            if try documents.isAtHub(document), !all.contains(document) { all.append(document) }
        }
        // All devices ask in the same order, so none has what another one waits for.
        all.sort { ($0.high, $0.low) < ($1.high, $1.low) }
        (self.documents, self.session, self.all) = (documents, session, all)
        (self.isTry, self.answer) = (isTry, answer)
        state = Mutex(State(rest: all))
        editorsEnd =
            cl_clock_monotonic_ns() + Timestamp.span(seconds: isTry ? 0 : EverywhereClaim.patience)
    }

    private var grants: DocumentGrants { documents.guarded.grants }

    func begin() {
        for document in all { documents.guarded.want(document, true) }
        awaitEditors()
    }

    private func awaitEditors() {
        guard !state.withLock(\.isOver) else { return }
        let editors = all.lazy.flatMap { self.documents.elsewhere($0) }.first { $0.use == .edits }
        guard let editors else { return takeNext() }
        if isTry { return answer(EverywhereClaim.busy(editors)) }
        // What who does not let go saves later becomes a conflict version.
        if cl_clock_monotonic_ns() >= editorsEnd { return takeNext() }
        session.later(seconds: EverywhereClaim.pause) { [self] in awaitEditors() }
    }

    private func takeNext() {
        let (next, isOver) = state.withLock { ($0.rest.first, $0.isOver) }
        if isOver { return }
        guard let next else { return answer(nil) }
        let number = grants.take(next) { [self] refusal in
            session.later(seconds: 0) { [self] in hear(next, refusal) }
        }
        let isLate = state.withLock { state in
            state.asked = (next, number)
            return state.isOver
        }
        if isLate { grants.withdraw(next, number) }
    }

    private func hear(_ document: Identifier, _ refusal: DocumentGrants.Refusal?) {
        switch refusal {
        case nil:
            let isOver = state.withLock { state in
                if !state.isOver {
                    state.taken.append(document)
                    state.rest.removeFirst()
                }
                return state.isOver
            }
            if isOver { grants.end(document) } else { takeNext() }
        case .elsewhere(let other) where isTry: answer(EverywhereClaim.busy(other))
        case .elsewhere, .arriving:
            session.later(seconds: EverywhereClaim.pause) { [self] in takeNext() }
        case .offline:
            answer(
                VolumeError(
                    .offline,
                    "The hub cannot be asked for the document, so it cannot be claimed on all "
                        + "devices."))
        case .reader:
            answer(
                VolumeError(
                    .denied,
                    "You are a reader of this volume, so you cannot claim documents on all "
                        + "devices."))
        }
    }

    private static func busy(_ other: OpenElsewhere?) -> VolumeError {
        let who = other.map { "\($0.user) on \($0.deviceName)" } ?? "Another device"
        return VolumeError(.busy, "\(who) edits the document.")
    }

    func end() {
        let (taken, asked) = state.withLock { state in
            defer { (state.taken, state.isOver) = ([], true) }
            return (state.taken, state.asked)
        }
        if let asked { grants.withdraw(asked.document, asked.number) }
        for document in taken { grants.end(document) }
        for document in all { documents.guarded.want(document, false) }
    }
}
