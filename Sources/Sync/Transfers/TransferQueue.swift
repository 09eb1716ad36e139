import CLinux
import HubProtocol
import Logging
import Model
import Reconcile
import Synchronization
import Volume

/// Uploads and downloads large contents in the background, with one thread for each direction.
final class TransferQueue: EnginePart, @unchecked Sendable {
    let parts: EngineParts
    private let uploader: ChunkUploader
    private let downloader: ContentDownloader

    private let signal = Signal()
    // Guarded by `signal`.
    private var uploads: [Upload] = []
    private var downloads: [AdjustmentTask] = []
    private var uploading: Set<Identifier> = []
    private var downloading: Set<Identifier> = []
    private var finished: Set<Identifier> = []
    private var unreadable: Set<Identifier> = []
    /// Revisions that the hub refused because the quota is used up.
    private var refused: Set<Identifier> = []
    /// Downloaded contents, by revision.
    private var prepared: [Identifier: Prepared] = [:]
    private var failedDownloads = FailedDownloads()
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
        private let revision: Identifier?
        private let attributes: [String: [UInt8]]

        init(name: String, of state: ItemState) {
            (self.name, item, revision) = (name, state.id, state.current?.id)
            attributes = state.attributes.compactMapValues(\.value)
        }

        /// Whether it can be put into the tree for this state of the item: the prepared file
        /// already has its attributes, such as the mode.
        func fits(_ state: ItemState) -> Bool {
            state.current?.id == revision
                && state.attributes.compactMapValues(\.value) == attributes
        }
    }

    enum UploadState { case done, underway, unreadable, overQuota }

    init(_ parts: EngineParts, _ uploader: ChunkUploader, _ downloader: ContentDownloader) {
        (self.parts, self.uploader, self.downloader) = (parts, uploader, downloader)
    }

    func start() {
        signal.change { running += 2 }
        startThread(named: "upload") { [self] in
            while let job = nextUpload() { carry(job) }
            signal.change { running -= 1 }
        }
        startThread(named: "download") { [self] in
            while let task = nextDownload() { carry(task) }
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

    /// The revisions that are being uploaded, or wait for it.
    var beingUploaded: Set<Identifier> { signal.look { uploading } }

    func download(_ task: AdjustmentTask) {
        signal.change {
            let item = task.adjustment.item
            guard let revision = task.adjustment.remote.current?.id,
                !failedDownloads.isWaiting(item, revision), downloading.insert(item).inserted
            else { return }
            downloads.append(task)
        }
    }

    /// Items whose contents are being downloaded. The engine skips them.
    var beingDownloaded: Set<Identifier> { signal.look { downloading } }

    /// The versions whose downloads have failed and wait for the next attempt, by item. The engine
    /// skips the items while they have these versions.
    var waitingForAttempt: [Identifier: Identifier] {
        signal.look { failedDownloads.waiting(at: cl_clock_monotonic_ns()) }
    }

    /// When a download is tried again.
    var nextAttempt: Int64 { signal.look { failedDownloads.next } ?? .max }

    func hasPrepared(_ revision: Identifier) -> Bool { signal.look { prepared[revision] != nil } }

    func takePrepared(_ revision: Identifier) -> Prepared? {
        signal.look { prepared.removeValue(forKey: revision) }
    }

    /// Stores contents that are downloaded, or that could not be put into the tree yet, for the
    /// next attempt.
    func keep(_ revision: Identifier, _ content: Prepared) {
        signal.change { prepared[revision] = content }
    }

    /// The downloaded contents, by revision.
    var waitingForPlace: [Identifier: Prepared] { signal.look { prepared } }

    // MARK: The threads

    private func nextUpload() -> Upload? {
        _ = signal.wait(until: .max / 2) { isStopping || !uploads.isEmpty }
        return signal.look { isStopping ? nil : uploads.removeFirst() }
    }

    private func nextDownload() -> AdjustmentTask? {
        _ = signal.wait(until: .max / 2) { isStopping || !downloads.isEmpty }
        return signal.look { isStopping ? nil : downloads.removeFirst() }
    }

    private func carry(_ job: Upload) {
        var result = UploadState.underway
        do {
            let failed = try uploader.upload([job.revision], of: job)
            result = failed.isEmpty ? .done : .unreadable
        } catch HubFault.refused(let failure) where failure.code == .quota {
            result = .overQuota
        } catch {
            log.debug("\(job.path) could not be uploaded yet: \(error)")
            _ = signal.wait(until: cl_clock_monotonic_ns() + 2_000_000_000) { isStopping }
        }
        state.withLock { $0.activity.lines[job.item] = nil }
        signal.change {
            uploading.remove(job.revision)
            if result == .done { finished.insert(job.revision) }
            if result == .unreadable { unreadable.insert(job.revision) }
            if result == .overQuota { refused.insert(job.revision) }
        }
        threads.poke()
    }

    private func carry(_ task: AdjustmentTask) {
        let item = task.adjustment.item
        guard let revision = task.adjustment.remote.current?.id else { return }
        let path = task.targetPath.shown
        let past = signal.look { failedDownloads.path(of: item) }
        var problem: String?
        do {
            let name = try downloader.download(task) { isEnding }
            signal.change { failedDownloads.remove(item) }
            keep(revision, Prepared(name: name, of: task.adjustment.remote))
        } catch {
            log.debug("\(path) is not downloaded yet: \(error)")
            let isPassing = (error as? VolumeError)?.isPassing ?? false
            signal.change {
                failedDownloads.insert(
                    item, revision, path: path, isPassing: isPassing, now: cl_clock_monotonic_ns())
            }
            if !isPassing { problem = "\(error)" }
        }
        state.withLock { state in
            if let past { state.problems[past] = nil }
            if let problem { state.problems[path] = problem }
        }
        state.withLock { $0.activity.lines[item] = nil }
        _ = signal.change { downloading.remove(item) }
        state.withLock { $0.isDueAgain = true }
        threads.poke()
    }
}
