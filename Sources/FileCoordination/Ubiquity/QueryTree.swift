import Control
import Foundation
import Model
import Synchronization

/// A directory that a query searches. It collects the paths at which something has happened: from
/// the events of the volume, which also report what this process does, and as a presenter, which
/// follows the directory, hears of versions, and hears when the volume is mounted again.
final class QueryTree: FilePresenter {
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages = [.move, .change, .subitemVersions]
    private let bell: QueryBell
    private let state: Mutex<State>

    private struct State {
        var path: FilePath
        var changedPaths: Set<FilePath> = []
        var client: CoordinationClient?
        /// Grows with each connection.
        var number = 0
        /// Whether the events must be requested, for the first time or because the connection has
        /// ended or the directory was moved.
        var needsWatch = true
    }

    init(_ url: URL, _ bell: QueryBell) {
        // The path without symbolic links, as the volume reports it.
        let path = FilePath(url).absolute
        state = Mutex(State(path: (try? path.resolved()) ?? path))
        self.bell = bell
    }

    var path: FilePath { state.withLock(\.path) }
    var presentedItemURL: URL? { URL(path, isDirectory: true) }

    func takeChangedPaths() -> Set<FilePath> {
        state.withLock { state in
            defer { state.changedPaths = [] }
            return state.changedPaths
        }
    }

    private func receive(_ paths: [FilePath]) {
        state.withLock { $0.changedPaths.formUnion(paths) }
        bell.ring()
    }

    // MARK: Events of the volume

    /// Requests the events of the directory, unless that was done.
    func watch() {
        let (path, number) = state.withLock { state -> (FilePath?, Int) in
            guard state.needsWatch else { return (nil, 0) }
            state.needsWatch = false
            // This closes the old connection.
            state.client = nil
            state.number += 1
            return (state.path, state.number)
        }
        guard let path, let place = (try? path.place()) ?? nil else { return }
        let client = try? CoordinationClient(
            socket: place.socket,
            pushed: { [weak self] push in
                if let event = push.event { self?.receive(event, place.mountPoint) }
            }, ended: { [weak self] in self?.connectionEnded(number) })
        guard let client else { return }
        state.withLock { $0.client = client }
        var request = Request(.watch, path: place.components)
        request.contents = true
        _ = try? client.ask(request, as: Nothing.self)
        // Something may have happened before.
        receive([path])
    }

    func endWatching() {
        let client = state.withLock { state in
            defer { (state.client, state.needsWatch) = (nil, false) }
            return state.client
        }
        client?.close()
    }

    /// If the daemon has ended, too, the next attempt fails, and the message that the volume is
    /// mounted again leads to another one.
    private func connectionEnded(_ number: Int) {
        let isLost = state.withLock { state in
            guard state.client != nil, state.number == number else { return false }
            (state.client, state.needsWatch) = (nil, true)
            return true
        }
        if isLost { bell.ring() }
    }

    private func receive(_ event: WatchEvent, _ root: FilePath) {
        func path(_ text: RawText) -> FilePath { root.appending(text.path ?? []) }
        switch event.kind {
        case .appeared, .changed, .removed, .moved, .conflict:
            receive([path(event.path)] + (event.to.map { [path($0)] } ?? []))
        case .contents:
            // Without a path the volume's status tells what is being transferred.
            if event.path.bytes.isEmpty { bell.ring() } else { receive([path(event.path)]) }
        case .identity: receive([self.path])
        case .claimed, .waiting, .released, .presented, .retired, .openedElsewhere,
            .closedElsewhere, .openedAnyway:
            break
        }
    }

    // MARK: Messages

    func presentedItemDidMove(to newURL: URL) {
        let paths = state.withLock { state in
            defer { (state.path, state.needsWatch) = (FilePath(newURL), true) }
            return [state.path, FilePath(newURL)]
        }
        receive(paths)
    }
    /// It is also called after the volume was mounted again.
    func presentedItemDidChange() {
        state.withLock { if $0.client == nil { $0.needsWatch = true } }
        receive([path])
    }
    func presentedSubitem(at url: URL, didGain version: FileVersion) { receive([FilePath(url)]) }
    func presentedSubitem(at url: URL, didLose version: FileVersion) { receive([FilePath(url)]) }
    func presentedSubitem(at url: URL, didResolve version: FileVersion) {
        receive([FilePath(url)])
    }
}
