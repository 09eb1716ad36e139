import Control
import Foundation
import Synchronization

/// Takes turns with all other programs on files and directories of Concord volumes.
///
/// Make one for each large operation (opening a document, saving it, copying a tree), give it the
/// presenter that shows the item, if you have one, and do your reading or writing in the accessor,
/// at the URL that it gets: the item may have been moved while you waited.
///
///     let text = try FileCoordinator(filePresenter: self)
///         .coordinate(readingItemAt: url) { try String(contentsOf: $0, encoding: .utf8) }
///
/// On files of other file systems there is nobody to take turns with: accessors run at once.
///
/// Calls of one coordinator, and calls whose ``purposeIdentifier`` is the same, never wait for each
/// other. See <doc:FileCoordination> for what differs from `NSFileCoordinator`.
public final class FileCoordinator: Sendable {
    private let presenter: (any FilePresenter)?
    private let waits: Bool
    private let state: Mutex<State>

    private struct State {
        var purpose: String
        var mayName: Bool
        var isCancelled = false
        var requests: [Int: TurnRequest] = [:]
        var turns: [ObjectIdentifier: Turn] = [:]
    }

    /// Of this process.
    private static let origin = UUID().uuidString

    /// - Parameters:
    ///   - filePresenter: On whose behalf it is: it is not told of these accesses, and others that
    ///     wait for its answer let them pass.
    ///   - waits: False for a coordinator that throws ``FileCoordinationError/busy`` rather than
    ///     waiting for others' turns. Presenters are asked, and waited for, all the same.
    public init(filePresenter: (any FilePresenter)? = nil, waits: Bool = true) {
        self.waits = waits
        presenter = filePresenter
        let suffix = filePresenter.map { "presenter \(UInt(bitPattern: ObjectIdentifier($0)))" }
        state = Mutex(
            State(
                purpose: "\(Self.origin) \(suffix ?? UUID().uuidString)",
                mayName: filePresenter == nil))
    }

    /// Claims with the same purpose are never in each other's way, also across processes.
    ///
    /// Every coordinator has one of its own; those of one presenter share theirs. Set it once, to
    /// a text that is not empty, and not on a coordinator with a presenter: anything else is a
    /// mistake that ends the program.
    public var purposeIdentifier: String {
        get { state.withLock { $0.purpose } }
        set {
            precondition(!newValue.isEmpty, "the purpose of a coordinator must not be empty")
            state.withLock { state in
                precondition(
                    state.mayName,
                    "the purpose of a coordinator is set once, and a presenter's are its own")
                state.purpose = newValue
                state.mayName = false
            }
        }
    }

    // MARK: Presenters

    /// Registers a presenter; when it returns, no access goes by unheard. One that is registered
    /// already stays so.
    public static func addFilePresenter(_ filePresenter: any FilePresenter) {
        PresenterTable.add(filePresenter)
    }

    /// Ends it: nothing is told to the presenter any more, and nobody waits for it. What it gave
    /// up until others are done is its own at once: its reacquirers are called.
    public static func removeFilePresenter(_ filePresenter: any FilePresenter) {
        PresenterTable.remove(filePresenter)
    }

    /// Those of this process, in the order in which they were added.
    public static var filePresenters: [any FilePresenter] { PresenterTable.all }

    // MARK: Ending

    /// Ends all waiting, for good: calls that wait throw ``FileCoordinationError/cancelled``, and
    /// so does every later one. An accessor that runs is not interrupted.
    ///
    /// What presenters were asked they were asked; nobody waits for their answers any more.
    public func cancel() {
        let requests = state.withLock { state in
            state.isCancelled = true
            return Array(state.requests.values)
        }
        for request in requests { request.cancel() }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    // MARK: Moving

    /// Does nothing: there is no sandbox to prepare for the move.
    public func item(at oldURL: URL, willMoveTo newURL: URL) {}

    /// Says, within an accessor that writes `oldURL`, that the item is at `newURL` now.
    ///
    /// A rename is seen by itself. This is for a move that nobody can see, such as copying and
    /// deleting, or saving `letter.rtf` as `letter.rtfd`. Elsewhere it does nothing.
    public func item(at oldURL: URL, didMoveTo newURL: URL) {
        guard let from = try? FilePath(oldURL).place(), let to = try? FilePath(newURL).place()
        else { return }
        for turn in state.withLock({ Array($0.turns.values) }) where turn.move(from, to) { return }
    }
}

// What the calls have in common.
extension FileCoordinator {
    /// Asks for turns; `done` is called once, perhaps before this returns, on any thread.
    @discardableResult
    func request(
        _ accesses: [Access], isPreparing: Bool = false,
        _ done: @escaping @Sendable (TurnRequest.Outcome) -> Void
    ) -> TurnRequest {
        let asker = TurnRequest.Asker(
            purpose: purposeIdentifier, session: presenter.flatMap(PresenterTable.session(of:)),
            waits: waits)
        let number = Party.nextNumber()
        let request = TurnRequest(accesses, asker, isPreparing: isPreparing) { [self] outcome in
            state.withLock { state in
                state.requests[number] = nil
                if case .success(let turn) = outcome { state.turns[ObjectIdentifier(turn)] = turn }
            }
            done(outcome)
        }
        let isCancelled = state.withLock { state in
            state.requests[number] = request
            return state.isCancelled
        }
        if isCancelled { request.cancel() }
        request.start()
        return request
    }

    /// Waits on this thread.
    func wait(_ accesses: [Access], isPreparing: Bool = false) throws -> Turn {
        let answer = Mutex<TurnRequest.Outcome?>(nil)
        let done = WaitingPoint()
        request(accesses, isPreparing: isPreparing) { outcome in
            answer.withLock { $0 = outcome }
            done.open()
        }
        done.wait()
        return try answer.withLock { $0! }.get()
    }

    /// The outcome, for the caller to look at: a function that ended with a `try await` would lose
    /// its caller's actor where that throws (<doc:Threads>).
    @concurrent func outcome(
        of accesses: [Access], isPreparing: Bool = false
    ) async -> Result<Turn, any Error> {
        let current = Mutex<(request: TurnRequest?, isCancelled: Bool)>((nil, false))
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let request = request(accesses, isPreparing: isPreparing) {
                    continuation.resume(returning: $0)
                }
                let isLate = current.withLock { current in
                    current.request = request
                    return current.isCancelled
                }
                if isLate { request.cancel() }
            }
        } onCancel: {
            let request = current.withLock { current in
                current.isCancelled = true
                return current.request
            }
            request?.cancel()
        }
        return outcome.mapError { error -> any Error in
            if error.code == .cancelled, Task.isCancelled { return CancellationError() }
            return error
        }
    }

    func forget(_ turn: Turn) {
        state.withLock { $0.turns[ObjectIdentifier(turn)] = nil }
        // A presenter of what did not exist may have something to present now.
        presenter.flatMap(PresenterTable.session(of:))?.settle()
    }
}
