import ChunkStore
import Hub
import HubProtocol
import Model
import Reconcile

/// Lets the requests of a device commit one after another, because the numbers of its operations
/// have no gaps.
actor DeviceQueue {
    private var busy: Set<Identifier> = []
    private var waiting: [Identifier: [CheckedContinuation<Void, Never>]] = [:]

    nonisolated func alone<Value>(_ device: Identifier, _ body: () async throws -> Value)
        async rethrows -> Value
    {
        await enter(device)
        do {
            let value = try await body()
            await leave(device)
            return value
        } catch {
            await leave(device)
            throw error
        }
    }

    private func enter(_ device: Identifier) async {
        if busy.insert(device).inserted { return }
        await withCheckedContinuation { waiting[device, default: []].append($0) }
    }

    private func leave(_ device: Identifier) {
        guard var mine = waiting[device] else {
            busy.remove(device)
            return
        }
        let next = mine.removeFirst()
        waiting[device] = mine.isEmpty ? nil : mine
        next.resume()
    }
}

/// Changes a volume by operations as a device sends them.
struct Changes: Sendable {
    let session: Session
    /// As it was when the request began: the operations have seen it up to this head.
    let volume: VolumeRow
    let names: VolumeNames
    /// The time of the changes.
    let time: Int64
    private let deviceName: String

    /// One operation without its number.
    struct Step: Sendable {
        let item: Identifier
        let change: Change
        var content: RevisionContent?

        init(_ item: Identifier, _ change: Change, _ content: RevisionContent? = nil) {
            self.item = item
            self.change = change
            self.content = content
        }
    }

    /// - Throws: `.forbidden` if the account may not change the volume.
    init(_ volume: VolumeRow, _ session: Session) async throws {
        self.session = session
        self.volume = volume
        names = VolumeNames(volume: volume)
        time = session.now
        let caller = session.caller
        deviceName = try await session.hub.ledger.read { transaction in
            _ = try transaction.membership.volume(volume.id, of: caller, for: .pageForm)
            return try transaction.row(
                "SELECT name FROM devices WHERE id = $1", [.id(caller.device)])?.text(0) ?? ""
        }
    }

    // MARK: What changes consist of

    func placement(_ name: String, in parent: Identifier) -> Placement {
        names.placement(name, in: parent, device: deviceName, at: time)
    }

    /// A new version with these contents.
    func revision(
        _ content: Digest, size: UInt64, parents: [Identifier], named name: String, modified: Int64
    ) -> Revision {
        let note = Revision.Note(
            deviceName: deviceName, person: session.caller.user, program: "WebDAV", name: name,
            modified: modified, saved: time)
        return Revision(
            id: .random(), parents: parents, content: content, size: size,
            moment: Moment(time: time, device: session.caller.device), note: note)
    }

    /// A new version of another document with the contents of this one.
    func copy(of old: Revision, parents: [Identifier], named name: String) async throws
        -> (Revision, RevisionContent)
    {
        let volume = volume.id
        let content = try await session.hub.ledger.read { try $0.content(of: old.id, in: volume) }
        let new = revision(
            old.content, size: old.size, parents: parents, named: name,
            modified: old.note.modified)
        return (new, content)
    }

    static func modified(_ time: Int64) -> [UInt8] {
        withUnsafeBytes(of: time.bigEndian) { Array($0) }
    }

    // MARK: Committing

    /// How often another request of the same device, at another hub, may take the number first.
    private static let attempts = 20

    func commit(_ step: Step) async throws -> Verdict {
        guard let verdict = try await commit([step]).first else {
            throw Failure(.failed, "The hub has not decided about a change.")
        }
        return verdict
    }

    /// Commits the steps and returns their verdicts.
    ///
    /// - Parameter isGroup: Whether all steps are refused if one is.
    /// - Throws: Why the first refused step was refused.
    @discardableResult
    func commit(_ steps: [Step], isGroup: Bool = true) async throws -> [Verdict] {
        guard !steps.isEmpty else { return [] }
        return try await session.memory.queue.alone(session.caller.device) {
            for attempt in 1... {
                do {
                    return try await commitOnce(steps, isGroup: isGroup)
                } catch let failure as Failure
                    where [.copied, .gap].contains(failure.code) && attempt < Changes.attempts
                {
                    continue
                }
            }
            return []
        }
    }

    private func commitOnce(_ steps: [Step], isGroup: Bool) async throws -> [Verdict] {
        let (hub, caller, volume) = (session.hub, session.caller, volume)
        let (epoch, last) = try await hub.ledger.read { transaction in
            let epoch = try transaction.devices.epoch(of: caller.device)
            return (
                epoch,
                try transaction.operations.lastNumber(
                    of: caller.device, epoch: epoch, in: volume.id)
            )
        }
        let entries = steps.enumerated().map { index, step in
            OperationEntry(
                Operation(
                    id: OperationID(
                        device: caller.device, epoch: epoch, number: last + 1 + UInt64(index)),
                    item: step.item, moment: Moment(time: time, device: caller.device),
                    base: volume.head, change: step.change),
                content: step.content, group: isGroup && steps.count > 1 ? 1 : nil)
        }
        let request = CommitRequest(
            device: caller.device, epoch: epoch, volumeEpoch: volume.epoch, collection: nil,
            operations: entries, sent: time)
        let answer = try await hub.commit(
            request, to: volume.id, for: caller, keepsContents: false)
        let refused = answer.results.compactMap(\.refusal)
        if let refusal = refused.first(where: { $0.code != .group }) ?? refused.first {
            throw Failure(refusal.code == .quota ? .quota : .malformed, refusal.message)
        }
        return answer.results.compactMap(\.verdict)
    }
}
