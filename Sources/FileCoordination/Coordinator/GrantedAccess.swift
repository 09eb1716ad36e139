import Control
import Foundation
import Model
import Synchronization

/// A claim that one connection has granted.
struct GrantedClaim: Sendable {
    let client: CoordinationClient
    let socket: String
    let claim: Int
    /// The paths that the claim may write.
    var written: [[Name]] = []

    private func request(_ verb: Verb) -> Request {
        var request = Request(verb)
        request.claim = claim
        return request
    }

    /// Releases the claim. A daemon that has ended holds no claims, so errors are ignored.
    func release(_ done: @escaping @Sendable () -> Void = {}) {
        client.ask(request(.release)) { _ in done() }
    }

    func cancel() { client.ask(request(.cancel)) { _ in } }
}

/// The granted claims of one call.
final class GrantedAccess: Sendable {
    private let accesses: [Access]
    private let found: [URL]
    private let state: Mutex<State>

    private struct State {
        var held: [GrantedClaim]
        var snapshots: [Snapshot] = []
    }

    init(_ accesses: [Access], at urls: [URL], _ held: [GrantedClaim]) {
        self.accesses = accesses
        found = urls
        state = Mutex(State(held: held))
    }

    /// The URLs for accessors: the items' places, or snapshots of them. If the call uses only
    /// snapshots, the claims are released here.
    func urls() throws(FileCoordinationError) -> [URL] {
        guard isUploading else { return found }
        var urls = found
        for (index, access) in accesses.enumerated() where access.reads(.forUploading) {
            let snapshot = try Snapshot(of: urls[index])
            state.withLock { $0.snapshots.append(snapshot) }
            urls[index] = snapshot.url
        }
        if accesses.allSatisfy({ $0.reads(.forUploading) }) { release() }
        return urls
    }

    @concurrent func urls() async throws -> [URL] {
        guard isUploading else { return found }
        return try await withCheckedThrowingContinuation { done in
            let work = { @Sendable in done.resume(with: Result { try self.urls() }) }
            // Copying takes long, so it must not run on a thread of the cooperative pool.
            if let thread = ThreadHandle("snapshot", work) { thread.detach() } else { work() }
        }
    }

    private var isUploading: Bool { accesses.contains { $0.reads(.forUploading) } }

    /// Returns when the claims are released, so that other programs can go on.
    func end() {
        release()
        removeSnapshots()
    }

    @concurrent func end() async {
        await withCheckedContinuation { done in release { done.resume() } }
        removeSnapshots()
    }

    private func removeSnapshots() {
        let snapshots = state.withLock { state in
            defer { state.snapshots = [] }
            return state.snapshots
        }
        for snapshot in snapshots { snapshot.remove() }
    }

    private func release() {
        let done = Latch()
        release { done.open() }
        done.wait()
    }

    private func release(_ done: @escaping @Sendable () -> Void) {
        guard let last = state.withLock({ $0.held.popLast() }) else { return done() }
        last.release { self.release(done) }
    }

    /// Reports that an item that this call writes has moved. Returns false if the item is not of
    /// this call.
    func move(_ from: MountedPath, _ to: MountedPath) -> Bool {
        guard from.socket == to.socket else { return false }
        let held = state.withLock { state in
            state.held.first { held in
                held.socket == from.socket
                    && held.written.contains { from.components.starts(with: $0) }
            }
        }
        guard let held else { return false }
        var request = Request(.moved, path: from.components)
        request.to = RawText(path: to.components)
        request.claim = held.claim
        _ = try? held.client.ask(request, as: Nothing.self)
        return true
    }
}
