import Control
import Foundation
import Model
import Synchronization

/// Waits for the turns of one call, without a thread: the items of each volume at once, one volume
/// after the other in the order of their sockets, which is the same for everybody.
final class TurnRequest: Sendable {
    typealias Outcome = Result<Turn, FileCoordinationError>

    /// Who asks.
    struct Asker: Sendable {
        let purpose: String
        let session: PresenterSession?
        let waits: Bool
    }

    private let accesses: [Access]
    private let asker: Asker
    /// Holds nothing: presenters are asked beforehand.
    private let isPreparing: Bool
    private let completion: @Sendable (Outcome) -> Void
    private let state = Mutex(State())

    private struct State {
        var isCancelled = false
        /// What is waited for.
        var pending: Held?
        var held: [Held] = []
        /// By the index of the access.
        var granted: [Int: FilePath] = [:]
    }

    /// An item where it is, as far as we know.
    private struct Item: Sendable {
        let index: Int
        let access: Access
        let path: FilePath
        let place: MountedPath?

        /// Without links.
        var found: FilePath { place?.path ?? path }
    }

    private struct Volume: Sendable {
        let socket: String
        let client: TurnClient
        let items: [Item]
    }

    /// `completion` is called once, on any thread, this one too.
    init(
        _ accesses: [Access], _ asker: Asker, isPreparing: Bool = false,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        self.accesses = accesses
        self.asker = asker
        self.isPreparing = isPreparing
        self.completion = completion
    }

    func start() { attempt(1) }

    /// Whoever waits gets `cancelled`; a turn that was given is not taken back.
    func cancel() {
        let pending = state.withLock { state in
            state.isCancelled = true
            return state.pending
        }
        pending?.cancel()
    }

    // MARK: Attempts

    /// Where links and moved items lead is looked at before the turn, and in it once more; when
    /// it is elsewhere by then, it begins again.
    private static let attemptsMax = 8

    private func attempt(_ number: Int) {
        do throws(FileCoordinationError) {
            for access in accesses { try access.validate() }
            let items = try accesses.enumerated().map {
                index, access throws(FileCoordinationError) in
                let path = try meant(access)
                return Item(index: index, access: access, path: path, place: try path.place())
            }
            let volumes = try volumes(of: items)
            take(volumes[...], items, number)
        } catch {
            fail(error)
        }
    }

    /// All are connected to before the first is asked: answers come on threads that must not wait.
    private func volumes(of items: [Item]) throws(FileCoordinationError) -> [Volume] {
        let groups = Dictionary(grouping: items.filter { $0.place != nil }) { $0.place!.socket }
        do throws(VolumeError) {
            return try groups.sorted { $0.key < $1.key }.map { socket, items throws(VolumeError) in
                let client = try Party.at(socket).client()
                return Volume(socket: socket, client: client, items: items)
            }
        } catch {
            throw FileCoordinationError(error)
        }
    }

    private func meant(_ access: Access) throws(FileCoordinationError) -> FilePath {
        let path = FilePath(access.url).absolute
        let meant = try asker.session?.translate(path) ?? path
        return access.reads(.resolvesSymbolicLink) ? try meant.followed() : meant
    }

    private func take(_ volumes: ArraySlice<Volume>, _ items: [Item], _ number: Int) {
        guard let volume = volumes.first else { return finish(items, number) }
        let pending = Held(
            client: volume.client, socket: volume.socket,
            claim: Party.nextNumber())
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.pending = pending }
            return state.isCancelled
        }
        if isCancelled { return fail(.wasCancelled) }
        volume.client.ask(request(volume.items, pending)) { [self] answer in
            do throws(FileCoordinationError) {
                try hear(answer, pending, volume.items)
                take(volumes.dropFirst(), items, number)
            } catch { fail(error) }
        }
        // It may have been cancelled before the daemon knew of it.
        if state.withLock({ $0.isCancelled }) { pending.cancel() }
    }

    private func request(_ items: [Item], _ pending: Held) -> Request {
        var request = Request(isPreparing ? .prepare : .claim)
        request.claim = pending.claim
        request.access = items.map { $0.access.field($0.place!.components) }
        request.purposes = [asker.purpose]
        if let session = asker.session, session.place?.socket == pending.socket {
            request.presenters = [session.number]
        }
        if !asker.waits { request.try = true }
        return request
    }

    private func hear(
        _ answer: Result<[UInt8], VolumeError>, _ pending: Held, _ items: [Item]
    ) throws(FileCoordinationError) {
        do throws(VolumeError) {
            guard !isPreparing else {
                _ = try TurnClient.result(answer, as: Nothing.self)
                return state.withLock { $0.pending = nil }
            }
            let paths = try TurnClient.result(answer, as: GrantReport.self).paths
            state.withLock { state in
                var held = pending
                state.pending = nil
                for (item, path) in zip(items, paths) {
                    let names = path.path ?? item.place!.components
                    if item.access.isWriting { held.written.append(names) }
                    if names != item.place!.components {
                        state.granted[item.index] = item.place!.mountPoint.appending(names)
                    }
                }
                state.held.append(held)
            }
        } catch {
            throw FileCoordinationError(error)
        }
    }

    // MARK: Ends

    private func finish(_ items: [Item], _ number: Int) {
        let (isCancelled, granted) = state.withLock { ($0.isCancelled, $0.granted) }
        if isCancelled { return fail(.wasCancelled) }
        do throws(FileCoordinationError) {
            for item in items where number < Self.attemptsMax {
                let now = try meant(item.access)
                if now != item.path, try now.place()?.path != granted[item.index] ?? item.found {
                    return begin(again: number + 1)
                }
            }
        } catch { return fail(error) }
        let urls = items.map { item in
            if granted[item.index] == nil, item.path == FilePath(item.access.url).absolute {
                return item.access.url
            }
            return URL(
                granted[item.index] ?? item.found, isDirectory: item.access.url.hasDirectoryPath)
        }
        completion(.success(Turn(accesses, at: urls, giveUp())))
    }

    private func begin(again number: Int) {
        for held in giveUp().reversed() { held.release() }
        let thread = ThreadHandle("turns") { [self] in attempt(number) }
        if let thread { thread.detach() } else { attempt(number) }
    }

    private func fail(_ error: FileCoordinationError) {
        for held in giveUp().reversed() { held.release() }
        completion(.failure(error.code == .cancelled ? .wasCancelled : error))
    }

    /// What is held is somebody else's business from now on.
    private func giveUp() -> [Held] {
        state.withLock { state in
            defer { (state.held, state.granted, state.pending) = ([], [:], nil) }
            return state.held
        }
    }
}
