import Control
import Foundation
import Model
import Synchronization

/// A registered presenter: where it is registered, its undelivered messages, and the reacquirers
/// that must still be called.
final class PresenterSession: Sendable {
    let presenter: any FilePresenter
    /// The presenter's number, the same on all connections.
    let number = MountConnection.nextNumber()
    private let mailbox: MessageQueue
    private let state = Mutex(State())
    /// Held while it is registered. Lock order: this lock before `state`.
    private let placing = Mutex(())

    private struct State {
        var place: MountedPath?
        var isRetired = false
        var brackets: [TurnKey: Bracket] = [:]
        /// Moves that were reported but not delivered yet, in order.
        var moves: [Move] = []
        /// What was known about the contents when the presenter was last told.
        var ubiquity: UbiquityResourceValues?
    }

    private struct TurnKey: Hashable {
        var generation: Int
        var turn: Int
    }

    /// One access, from `relinquish…` to `reacquire`.
    private struct Bracket {
        var unanswered = 0
        var reacquirers: [@Sendable () -> Void] = []
        var isOver = false
    }

    private struct Move {
        let id: Int
        /// Nil for the presented item itself.
        let from: FilePath?
        let to: FilePath
    }

    init(_ presenter: any FilePresenter) {
        self.presenter = presenter
        mailbox = MessageQueue(presenter)
    }

    // MARK: Registering

    var place: MountedPath? { state.withLock { $0.place } }

    /// Registers the presenter at its item's place, unless it is registered or has no item yet.
    func settle() {
        placing.withLock { _ in
            let isNeeded = state.withLock { $0.place == nil && !$0.isRetired }
            guard isNeeded, let url = presenter.presentedItemURL else { return }
            do throws(FileCoordinationError) {
                guard let place = try FilePath(url).place() else { return }
                // The place is set before the request, because messages may come before the answer.
                state.withLock { $0.place = place }
                do throws(VolumeError) {
                    try MountConnection.at(place.socket).add(self, at: place)
                } catch {
                    state.withLock { $0.place = nil }
                    throw FileCoordinationError(error)
                }
                if state.withLock({ $0.isRetired }) {
                    MountConnection.at(place.socket).remove(self)
                }
                if observesUbiquity {
                    let values = try? UbiquityContainer.resourceValues(ofItemAt: url)
                    state.withLock { $0.ubiquity = values ?? nil }
                }
            } catch {
                mailbox.post { $0.presentedItemRegistrationDidFail(with: error) }
            }
        }
    }

    /// Registers the presenter with a new daemon. The presenter gets a change message for what it
    /// may have missed.
    func register(again client: CoordinationClient) {
        guard let known = place else { return }
        let place = now(after: known)
        do throws(VolumeError) {
            _ = try client.ask(request(at: place), as: Nothing.self)
            state.withLock { $0.place = place }
            if presenter.presentedItemMessages.contains(.change) {
                mailbox.post { $0.presentedItemDidChange() }
            }
        } catch {
            let error = FileCoordinationError(error)
            mailbox.post { $0.presentedItemRegistrationDidFail(with: error) }
        }
    }

    /// The place of the presenter's item, if that is on the same volume.
    private func now(after known: MountedPath) -> MountedPath {
        guard let url = presenter.presentedItemURL, let place = try? FilePath(url).place(),
            place.socket == known.socket
        else { return known }
        return place
    }

    func request(at place: MountedPath) -> Request {
        var request = Request(.present, path: place.components)
        request.presenter = number
        var messages = presenter.presentedItemMessages
        if !observesUbiquity { messages.remove(.ubiquityAttributes) }
        request.hears = messages.kinds
        return request
    }

    private var observesUbiquity: Bool {
        presenter.presentedItemMessages.contains(.ubiquityAttributes)
            && !presenter.observedPresentedItemUbiquityAttributes.isEmpty
    }

    /// Stops all messages. Only the reacquirers of open accesses are still called.
    func retire() {
        let (place, owed) = state.withLock { state in
            state.isRetired = true
            defer { (state.place, state.brackets) = (nil, [:]) }
            return (state.place, state.brackets.values.flatMap(\.reacquirers))
        }
        mailbox.close()
        if let place { MountConnection.at(place.socket).remove(self) }
        for reacquirer in owed { mailbox.post(afterRemoval: true) { _ in reacquirer() } }
    }

    // MARK: Hearing

    func receive(_ message: PresenterMessage, _ generation: Int) {
        guard let place, !state.withLock({ $0.isRetired }) else { return }
        let subject = message.path.flatMap(\.path).map { place.mountPoint.appending($0) }
        let target = message.to.flatMap(\.path).map { place.mountPoint.appending($0) }
        let turn = message.turn ?? 0
        let key = TurnKey(generation: generation, turn: turn)
        switch message.kind {
        case .relinquishToReader: relinquish(key) { $0.relinquishPresentedItem(toReader: $1) }
        case .relinquishToWriter: relinquish(key) { $0.relinquishPresentedItem(toWriter: $1) }
        case .save:
            ask(key) { $0.savePresentedItemChanges(completionHandler: $1) }
        case .accommodateDeletion:
            let isPlain = message.plain ?? false
            ask(key) { presenter, done in
                if isPlain { (presenter as? Document)?.file.deletionBegins() }
                presenter.accommodatePresentedItemDeletion(completionHandler: done)
            }
        case .accommodateSubitemDeletion:
            let url = URL(subject ?? place.path)
            ask(key) { $0.accommodatePresentedSubitemDeletion(at: url, completionHandler: $1) }
        case .accommodateEviction:
            ask(key) { $0.accommodatePresentedItemEviction(completionHandler: $1) }
        case .ubiquityChanged: lookAtUbiquity()
        case .reacquire: reacquire(key)
        case .moved:
            guard let target, let names = message.to?.path else { break }
            state.withLock { $0.place = place.moved(to: names) }
            move(nil, target)
        case .subitemMoved: if let subject, let target { move(subject, target) }
        default: tell(message, URL(subject ?? place.path))
        }
    }

    /// Tells the presenter which of the attributes that it observes have changed.
    private func lookAtUbiquity() {
        mailbox.post { [self] presenter in
            guard let url = presenter.presentedItemURL,
                let values = try? UbiquityContainer.resourceValues(ofItemAt: url)
            else { return }
            let former = state.withLock { state in
                defer { state.ubiquity = values }
                return state.ubiquity
            }
            let changed = values.changes(since: former).intersection(
                presenter.observedPresentedItemUbiquityAttributes)
            if !changed.isEmpty { presenter.presentedItemDidChangeUbiquityAttributes(changed) }
        }
    }

    private func tell(_ message: PresenterMessage, _ url: URL) {
        let version = FileVersion(
            itemURL: url, persistentIdentifier: message.version ?? "")
        mailbox.post { presenter in
            switch message.kind {
            case .changed: presenter.presentedItemDidChange()
            case .subitemAppeared: presenter.presentedSubitemDidAppear(at: url)
            case .subitemChanged: presenter.presentedSubitemDidChange(at: url)
            case .versionGained: presenter.presentedItemDidGain(version)
            case .versionLost: presenter.presentedItemDidLose(version)
            case .versionResolved: presenter.presentedItemDidResolveConflict(version)
            case .subitemVersionGained: presenter.presentedSubitem(at: url, didGain: version)
            case .subitemVersionLost: presenter.presentedSubitem(at: url, didLose: version)
            case .subitemVersionResolved:
                presenter.presentedSubitem(at: url, didResolve: version)
            default: break
            }
        }
    }

    private func ask(
        _ key: TurnKey,
        _ message:
            @escaping @Sendable (any FilePresenter, @escaping @Sendable ((any Error)?) -> Void) ->
            Void
    ) {
        mailbox.post { [self] presenter in
            let isAnswered = Mutex(false)
            message(presenter) { error in
                guard isAnswered.withLock({ first(&$0) }) else { return }
                self.answer(key, failure: error.map(sentence))
            }
        }
    }

    private func answer(_ key: TurnKey, failure: String? = nil) {
        guard let place else { return }
        var request = Request(.answer)
        request.presenter = number
        request.turn = key.turn
        request.failure = failure
        MountConnection.at(place.socket).tell(request, key.generation)
    }

    // MARK: Brackets

    private func relinquish(
        _ key: TurnKey,
        _ message:
            @escaping @Sendable (
                any FilePresenter, @escaping @Sendable ((@Sendable () -> Void)?) -> Void
            ) -> Void
    ) {
        state.withLock { $0.brackets[key, default: Bracket()].unanswered += 1 }
        mailbox.post { [self] presenter in
            let isAnswered = Mutex(false)
            message(presenter) { reacquirer in
                guard isAnswered.withLock({ first(&$0) }) else { return }
                self.keep(reacquirer, key)
                self.answer(key)
            }
        }
    }

    /// Keeps the reacquirer until the access has ended. If the access has ended already, without
    /// waiting for this answer, the reacquirer is called at once.
    private func keep(_ reacquirer: (@Sendable () -> Void)?, _ key: TurnKey) {
        let isLate = state.withLock { state in
            guard var bracket = state.brackets[key] else { return true }
            bracket.unanswered -= 1
            if !bracket.isOver, let reacquirer { bracket.reacquirers.append(reacquirer) }
            let isDone = bracket.isOver && bracket.unanswered == 0
            state.brackets[key] = isDone ? nil : bracket
            return bracket.isOver
        }
        if isLate, let reacquirer { mailbox.post(afterRemoval: true) { _ in reacquirer() } }
    }

    private func reacquire(_ key: TurnKey) {
        state.withLock { $0.brackets[key]?.isOver = true }
        mailbox.post(afterRemoval: true) { [self] _ in
            let reacquirers = state.withLock { state in
                guard var bracket = state.brackets[key] else { return [@Sendable () -> Void]() }
                let all = bracket.reacquirers
                bracket.reacquirers = []
                state.brackets[key] = bracket.unanswered == 0 ? nil : bracket
                return all
            }
            for reacquirer in reacquirers { reacquirer() }
        }
    }

    /// Ends all open accesses of a connection whose daemon has ended.
    func connectionEnded(_ generation: Int) {
        let open = state.withLock { state in
            state.brackets.filter { $0.key.generation == generation && !$0.value.isOver }.keys
        }
        for key in open { reacquire(key) }
    }

    // MARK: Moves

    private func move(_ from: FilePath?, _ to: FilePath) {
        let id = MountConnection.nextNumber()
        state.withLock { $0.moves.append(Move(id: id, from: from, to: to)) }
        mailbox.post { [self] presenter in
            state.withLock { $0.moves.removeAll { $0.id == id } }
            guard let from else {
                let isDirectory = presenter.presentedItemURL?.hasDirectoryPath ?? false
                return presenter.presentedItemDidMove(to: URL(to, isDirectory: isDirectory))
            }
            presenter.presentedSubitem(at: URL(from), didMoveTo: URL(to))
        }
    }

    /// Translates a path that the presenter uses, which may not have received the last moves yet.
    func translate(_ path: FilePath) throws(FileCoordinationError) -> FilePath {
        let moves = state.withLock { $0.moves }
        guard !moves.isEmpty, let url = presenter.presentedItemURL else { return path }
        var resolvedPath = try path.place()?.path ?? path
        let given = resolvedPath
        var item = try FilePath(url).place()?.path ?? FilePath(url)
        for move in moves {
            resolvedPath = resolvedPath.replacing(move.from ?? item, with: move.to)
            item = item.replacing(move.from ?? item, with: move.to)
        }
        return resolvedPath == given ? path : resolvedPath
    }
}

/// Sets the flag and returns whether it was false.
private func first(_ flag: inout Bool) -> Bool {
    defer { flag = true }
    return !flag
}
