import Control
import Foundation
import Synchronization

/// Coordinates reads and writes of files and directories on Concord volumes with all other
/// programs.
///
/// Make one for each large operation (opening a document, saving it, copying a tree). If you have a
/// presenter that shows the item, pass it. Read or write only in the accessor and at the URL that
/// it gets, because the item may have been moved while the call waited.
///
///     let text = try FileCoordinator(filePresenter: self)
///         .coordinate(readingItemAt: url) { try String(contentsOf: $0, encoding: .utf8) }
///
/// On other file systems there is nothing to coordinate with, so accessors run at once.
///
/// Calls of one coordinator, and calls with the same ``purposeIdentifier``, never wait for each
/// other. See <doc:FileCoordination> for the differences from `NSFileCoordinator`.
public final class FileCoordinator: Sendable {
    private let presenter: (any FilePresenter)?
    private let waits: Bool
    private let scope: Scope
    private let state: Mutex<State>

    private struct State {
        var purpose: String
        var mayName: Bool
        var isCancelled = false
        var requests: [Int: ClaimRequest] = [:]
        var turns: [ObjectIdentifier: GrantedAccess] = [:]
    }

    /// Where accesses hold.
    public enum Scope: Hashable, Sendable {
        /// On this device.
        case device
        /// On all devices of the volume: presenters elsewhere are asked to save and to let go of
        /// the documents that are written, and what others save there during the access becomes a
        /// conflict version. The call fails if the hub cannot be asked. It is for documents, not
        /// for directories.
        case volume
    }

    /// Distinguishes the purposes of this process from those of others.
    private static let origin = UUID().uuidString

    /// - Parameters:
    ///   - filePresenter: The presenter on whose behalf the coordinator works. It receives no
    ///     messages about these accesses, and claims that wait for its answer let them pass.
    ///   - waits: False for a coordinator that throws ``FileCoordinationError/busy`` instead of
    ///     waiting for other claims. Presenters are asked and waited for all the same.
    ///   - scope: Where its accesses hold.
    public init(
        filePresenter: (any FilePresenter)? = nil, waits: Bool = true, scope: Scope = .device
    ) {
        self.waits = waits
        self.scope = scope
        presenter = filePresenter
        let suffix = filePresenter.map { "presenter \(UInt(bitPattern: ObjectIdentifier($0)))" }
        state = Mutex(
            State(
                purpose: "\(Self.origin) \(suffix ?? UUID().uuidString)",
                mayName: filePresenter == nil))
    }

    /// Claims with the same purpose never conflict, also across processes.
    ///
    /// Every coordinator has a purpose of its own; the coordinators of one presenter share theirs.
    /// Set it at most once, to a text that is not empty, and only on a coordinator without a
    /// presenter. Anything else is a programming error and ends the program.
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

    /// Registers a presenter. When it returns, the presenter receives messages about every access.
    /// Registering a presenter twice has no effect.
    public static func addFilePresenter(_ filePresenter: any FilePresenter) {
        PresenterTable.add(filePresenter)
    }

    /// Ends a registration: the presenter receives no more messages, and no program waits for it.
    /// Reacquirers of accesses that still run are called at once.
    public static func removeFilePresenter(_ filePresenter: any FilePresenter) {
        PresenterTable.remove(filePresenter)
    }

    /// The presenters of this process, in the order in which they were added.
    public static var filePresenters: [any FilePresenter] { PresenterTable.all }

    // MARK: Ending

    /// Cancels the coordinator for good: calls that wait throw ``FileCoordinationError/cancelled``,
    /// and so do later calls. An accessor that runs is not interrupted.
    ///
    /// Presenters that have been asked already still get to answer, but nothing waits for their
    /// answers.
    public func cancel() {
        let requests = state.withLock { state in
            state.isCancelled = true
            return Array(state.requests.values)
        }
        for request in requests { request.cancel() }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    // MARK: Moving

    /// Does nothing, because there is no sandbox to prepare for the move.
    public func item(at oldURL: URL, willMoveTo newURL: URL) {}

    /// Reports, within an accessor that writes `oldURL`, that the item is now at `newURL`.
    ///
    /// The volume sees a rename by itself. This is for moves that it cannot see, such as copying
    /// and deleting, or saving `letter.rtf` as `letter.rtfd`. On other file systems it does
    /// nothing.
    public func item(at oldURL: URL, didMoveTo newURL: URL) {
        guard let from = try? FilePath(oldURL).place(), let to = try? FilePath(newURL).place()
        else { return }
        for turn in state.withLock({ Array($0.turns.values) }) where turn.move(from, to) { return }
    }
}

// What all calls have in common.
extension FileCoordinator {
    /// Requests accesses. `done` is called once, on any thread, perhaps before this returns.
    @discardableResult
    func request(
        _ accesses: [Access], isPreparing: Bool = false,
        _ done: @escaping @Sendable (ClaimRequest.Outcome) -> Void
    ) -> ClaimRequest {
        let requester = ClaimRequest.Requester(
            purpose: purposeIdentifier, session: presenter.flatMap(PresenterTable.session(of:)),
            waits: waits, isEverywhere: scope == .volume)
        let number = MountConnection.nextNumber()
        let request = ClaimRequest(accesses, requester, isPreparing: isPreparing) {
            [self] outcome in
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

    /// Requests accesses and blocks this thread until they are granted.
    func wait(_ accesses: [Access], isPreparing: Bool = false) throws -> GrantedAccess {
        let answer = Mutex<ClaimRequest.Outcome?>(nil)
        let done = Latch()
        request(accesses, isPreparing: isPreparing) { outcome in
            answer.withLock { $0 = outcome }
            done.open()
        }
        done.wait()
        return try answer.withLock { $0! }.get()
    }

    /// Returns the outcome instead of throwing, because a function that ends with a `try await`
    /// would lose its caller's actor where that throws (<doc:Threads>).
    @concurrent func outcome(
        of accesses: [Access], isPreparing: Bool = false
    ) async -> Result<GrantedAccess, any Error> {
        let current = Mutex<(request: ClaimRequest?, isCancelled: Bool)>((nil, false))
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

    func forget(_ turn: GrantedAccess) {
        state.withLock { $0.turns[ObjectIdentifier(turn)] = nil }
        // The item of a presenter may exist only since this access, so its presenter can be
        // registered now.
        presenter.flatMap(PresenterTable.session(of:))?.settle()
    }
}
