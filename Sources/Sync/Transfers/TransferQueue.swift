import CLinux
import ChunkStore
import HubProtocol
import Journal
import Model
import Reconcile
import Synchronization
import Volume

/// Uploads and downloads large contents in the background, with one thread for each direction.
final class TransferQueue: @unchecked Sendable {
    private let signal = Signal()
    // Guarded by `signal`.
    private var uploads: [Upload] = []
    private var downloads: [SyncEngine.Task] = []
    private var uploading: Set<Identifier> = []
    private var downloading: Set<Identifier> = []
    private var finished: Set<Identifier> = []
    private var unreadable: Set<Identifier> = []
    /// Revisions that the hub refused because the quota is used up.
    private var refused: Set<Identifier> = []
    /// Downloaded contents, by revision.
    private var prepared: [Identifier: Prepared] = [:]
    private var retry: [Identifier: Int64] = [:]
    private var isStopping = false
    private var running = 0

    struct Upload: Sendable {
        var item: Identifier
        var revision: Identifier
        var path: String
    }

    /// A large content that is downloaded completely and not yet in the tree.
    struct Prepared: Sendable {
        var name: String
        var item: Identifier
    }

    enum UploadState { case done, underway, unreadable, overQuota }

    func start(_ engine: SyncEngine) {
        signal.change { running += 2 }
        startThread(named: "upload") { [self] in
            while let job = nextUpload() { carry(job, engine) }
            signal.change { running -= 1 }
        }
        startThread(named: "download") { [self] in
            while let task = nextDownload() { carry(task, engine) }
            signal.change { running -= 1 }
        }
    }

    func stop() {
        signal.change { isStopping = true }
        _ = signal.wait(until: .max / 2) { running == 0 }
    }

    var isEnding: Bool { signal.look { isStopping } }

    // MARK: Requests of the engine

    /// Returns the state of the upload, and queues it if it is neither finished nor queued.
    func upload(_ job: Upload) -> UploadState {
        signal.change {
            if finished.remove(job.revision) != nil { return .done }
            if unreadable.remove(job.revision) != nil { return .unreadable }
            if refused.remove(job.revision) != nil { return .overQuota }
            if uploading.insert(job.revision).inserted { uploads.append(job) }
            return .underway
        }
    }

    func download(_ task: SyncEngine.Task) {
        signal.change {
            let now = cl_clock_monotonic_ns()
            guard (retry[task.adjustment.item] ?? 0) <= now,
                downloading.insert(task.adjustment.item).inserted
            else { return }
            downloads.append(task)
        }
    }

    /// Items whose contents are being downloaded, or wait for the next attempt. The engine skips
    /// them.
    var waiting: Set<Identifier> {
        signal.look {
            let now = cl_clock_monotonic_ns()
            return downloading.union(retry.filter { $0.value > now }.keys)
        }
    }

    func hasPrepared(_ revision: Identifier) -> Bool { signal.look { prepared[revision] != nil } }

    func takePrepared(_ revision: Identifier) -> String? {
        signal.look { prepared.removeValue(forKey: revision)?.name }
    }

    /// Stores contents that are downloaded, or that could not be put into the tree yet, for the
    /// next attempt.
    func keep(_ revision: Identifier, _ content: Prepared) {
        signal.change { prepared[revision] = content }
    }

    /// The items of the downloaded contents, by revision.
    var waitingForPlace: [Identifier: Identifier] { signal.look { prepared.mapValues(\.item) } }

    // MARK: The threads

    private func nextUpload() -> Upload? {
        _ = signal.wait(until: .max / 2) { isStopping || !uploads.isEmpty }
        return signal.look { isStopping ? nil : uploads.removeFirst() }
    }

    private func nextDownload() -> SyncEngine.Task? {
        _ = signal.wait(until: .max / 2) { isStopping || !downloads.isEmpty }
        return signal.look { isStopping ? nil : downloads.removeFirst() }
    }

    private func carry(_ job: Upload, _ engine: SyncEngine) {
        var result = UploadState.underway
        do {
            let failed = try engine.upload([job.revision], of: job)
            result = failed.isEmpty ? .done : .unreadable
        } catch HubFault.refused(let failure) where failure.code == .quota {
            result = .overQuota
        } catch {
            engine.log.debug("\(job.path) could not be uploaded yet: \(error)")
            _ = signal.wait(until: cl_clock_monotonic_ns() + 2_000_000_000) { isStopping }
        }
        engine.state.withLock { $0.activity.lines[job.item] = nil }
        signal.change {
            uploading.remove(job.revision)
            if result == .done { finished.insert(job.revision) }
            if result == .unreadable { unreadable.insert(job.revision) }
            if result == .overQuota { refused.insert(job.revision) }
        }
        engine.poke()
    }

    private func carry(_ task: SyncEngine.Task, _ engine: SyncEngine) {
        let item = task.adjustment.item
        do {
            let name = try engine.download(task)
            if let revision = task.adjustment.remote.current?.id {
                keep(revision, Prepared(name: name, item: item))
            }
        } catch {
            engine.log.debug("\(task.targetPath.last?.text ?? "") is not downloaded yet: \(error)")
            signal.change { retry[item] = cl_clock_monotonic_ns() + 5_000_000_000 }
        }
        engine.state.withLock { $0.activity.lines[item] = nil }
        _ = signal.change { downloading.remove(item) }
        engine.dueAgain()
    }
}

extension SyncEngine {
    /// Downloads a large document next to the tree, to be swapped in when it is complete. Chunks
    /// that another local version has are copied from there. Returns the name of the prepared file.
    func download(_ task: Task) throws -> String {
        let state = task.adjustment.remote
        guard let current = state.current,
            let manifest = try hub.manifests(of: [current.id: current.size])[current.id]
        else { throw VolumeError(.notFound, "The hub has no contents of that version.") }
        let contents = Contents()
        contents.manifests[current.id] = manifest
        contents.whole = [current.id]
        let local = LocalChunks(volume, item: task.item?.key)
        let path = task.targetPath.shown
        let progress = Progress(self, state.id, path, .down, total: current.size)
        return try volume.arrivals.prepare(Arrival(state, contents)) {
            (references, file) throws(VolumeError) in
            var offset: Int64 = 0
            var missing: [(offset: Int64, chunk: ChunkReference)] = []
            for chunk in references {
                if let bytes = local.bytes(of: chunk) {
                    try write(bytes, toNew: file, at: offset)
                    progress.add(bytes.count)
                } else {
                    missing.append((offset, chunk))
                }
                offset += Int64(chunk.length)
            }
            try hub.chunks(missing.map(\.chunk), of: current.id) {
                (index, bytes) throws(VolumeError) in
                guard !transfers.isEnding else {
                    throw VolumeError(.cancelled, "Sync is stopping.")
                }
                try write(bytes, toNew: file, at: missing[index].offset)
                progress.add(bytes.count)
            }
        }
    }

    func dueAgain() {
        state.withLock { $0.isDueAgain = true }
        poke()
    }
}

/// Reports the progress of one document's transfer.
final class Progress: Sendable {
    private let engine: SyncEngine
    private let item: Identifier

    init(
        _ engine: SyncEngine, _ item: Identifier, _ path: String,
        _ direction: Activity.Direction, total: UInt64
    ) {
        self.engine = engine
        self.item = item
        engine.state.withLock {
            $0.activity.lines[item] = Activity.Line(
                path: path, direction: direction, done: 0, total: total)
        }
        engine.moved?()
    }

    func add(_ bytes: Int) {
        engine.state.withLock { $0.activity.lines[item]?.done += UInt64(bytes) }
    }
}
