import Control
import Foundation
import Model
import Synchronization

/// Requests the claims of one call and waits for them without a thread. The items of each volume
/// are claimed together, one volume after the other in the order of their sockets. The order is the
/// same in all processes, so two calls cannot deadlock.
final class ClaimRequest: Sendable {
    typealias Outcome = Result<GrantedAccess, FileCoordinationError>

    /// The coordinator that asks.
    struct Requester: Sendable {
        let purpose: String
        let session: PresenterSession?
        let waits: Bool
        let isEverywhere: Bool
    }

    private let accesses: [Access]
    private let requester: Requester
    /// Whether nothing is claimed and presenters are only asked.
    private let isPreparing: Bool
    private let completion: @Sendable (Outcome) -> Void
    private let state = Mutex(State())

    private struct State {
        var isCancelled = false
        /// The claim that is being waited for.
        var pending: GrantedClaim?
        var held: [GrantedClaim] = []
        /// The granted paths, by the index of the access.
        var granted: [Int: FilePath] = [:]
    }

    /// An item, with its place as far as it is known.
    private struct Item: Sendable {
        let index: Int
        let access: Access
        let path: FilePath
        let place: MountedPath?

        /// The path without symbolic links.
        var found: FilePath { place?.path ?? path }
    }

    private struct Volume: Sendable {
        let socket: String
        let client: CoordinationClient
        let items: [Item]
    }

    /// `completion` is called once, on any thread, perhaps before `start` returns.
    init(
        _ accesses: [Access], _ requester: Requester, isPreparing: Bool = false,
        _ completion: @escaping @Sendable (Outcome) -> Void
    ) {
        self.accesses = accesses
        self.requester = requester
        self.isPreparing = isPreparing
        self.completion = completion
    }

    func start() { attempt(1) }

    /// A call that waits fails with `cancelled`. A claim that was granted already is not taken
    /// back.
    func cancel() {
        let pending = state.withLock { state in
            state.isCancelled = true
            return state.pending
        }
        pending?.cancel()
    }

    // MARK: Attempts

    /// Symbolic links and moved items are resolved before the claim and again once it is granted.
    /// If the result differs, the call begins again, up to eight times.
    private static let attemptsMax = 8

    private func attempt(_ number: Int) {
        do throws(FileCoordinationError) {
            for access in accesses { try access.validate() }
            let items = try accesses.enumerated().map {
                index, access throws(FileCoordinationError) in
                let path = try resolvedPath(access)
                return Item(index: index, access: access, path: path, place: try path.place())
            }
            let volumes = try volumes(of: items)
            take(volumes[...], items, number)
        } catch {
            fail(error)
        }
    }

    /// Connects to all volumes before the first claim, because answers come on threads that must
    /// not block.
    private func volumes(of items: [Item]) throws(FileCoordinationError) -> [Volume] {
        let groups = Dictionary(grouping: items.filter { $0.place != nil }) { $0.place!.socket }
        do throws(VolumeError) {
            return try groups.sorted { $0.key < $1.key }.map { socket, items throws(VolumeError) in
                let client = try MountConnection.at(socket).client()
                return Volume(socket: socket, client: client, items: items)
            }
        } catch {
            throw FileCoordinationError(error)
        }
    }

    private func resolvedPath(_ access: Access) throws(FileCoordinationError) -> FilePath {
        let path = FilePath(access.url).absolute
        let resolvedPath = try requester.session?.translate(path) ?? path
        return access.reads(.resolvesSymbolicLink) ? try resolvedPath.followed() : resolvedPath
    }

    private func take(_ volumes: ArraySlice<Volume>, _ items: [Item], _ number: Int) {
        guard let volume = volumes.first else { return finish(items, number) }
        let pending = GrantedClaim(
            client: volume.client, socket: volume.socket,
            claim: MountConnection.nextNumber())
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.pending = pending }
            return state.isCancelled
        }
        if isCancelled { return fail(.wasCancelled) }
        volume.client.ask(request(volume.items, pending)) { [self] answer in
            do throws(FileCoordinationError) {
                try receive(answer, pending, volume.items)
                take(volumes.dropFirst(), items, number)
            } catch { fail(error) }
        }
        // The call may have been cancelled before the daemon knew the claim.
        if state.withLock({ $0.isCancelled }) { pending.cancel() }
    }

    private func request(_ items: [Item], _ pending: GrantedClaim) -> Request {
        var request = Request(isPreparing ? .prepare : .claim)
        request.claim = pending.claim
        request.access = items.map { $0.access.field($0.place!.components) }
        request.purposes = [requester.purpose]
        if let session = requester.session, session.place?.socket == pending.socket {
            request.presenters = [session.number]
        }
        if !requester.waits { request.try = true }
        if requester.isEverywhere, !isPreparing { request.everywhere = true }
        return request
    }

    private func receive(
        _ answer: Result<[UInt8], VolumeError>, _ pending: GrantedClaim, _ items: [Item]
    ) throws(FileCoordinationError) {
        do throws(VolumeError) {
            guard !isPreparing else {
                _ = try CoordinationClient.result(answer, as: Nothing.self)
                return state.withLock { $0.pending = nil }
            }
            let paths = try CoordinationClient.result(answer, as: GrantReport.self).paths
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
                let now = try resolvedPath(item.access)
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
        completion(.success(GrantedAccess(accesses, at: urls, takeGranted())))
    }

    private func begin(again number: Int) {
        for held in takeGranted().reversed() { held.release() }
        let thread = ThreadHandle("turns") { [self] in attempt(number) }
        if let thread { thread.detach() } else { attempt(number) }
    }

    private func fail(_ error: FileCoordinationError) {
        for held in takeGranted().reversed() { held.release() }
        completion(.failure(error.code == .cancelled ? .wasCancelled : error))
    }

    /// Returns everything that is held. The caller must release it from now on.
    private func takeGranted() -> [GrantedClaim] {
        state.withLock { state in
            defer { (state.held, state.granted, state.pending) = ([], [:], nil) }
            return state.held
        }
    }
}
