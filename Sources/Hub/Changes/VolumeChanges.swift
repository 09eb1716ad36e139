import ChunkStore
import HubProtocol
import Model
import Reconcile

/// Changes a volume for a browser or a program that uses WebDAV: for a device that has no journal
/// of its own. It does so by operations as other devices send them, about which `Hub.commit`
/// decides.
package struct VolumeChanges: Sendable {
    package let hub: Hub
    package let caller: Caller
    /// As it was when the request began.
    package let volume: VolumeRow
    /// The position in the volume's journal up to which the client has seen everything.
    package let base: UInt64
    package let names: VolumeNames
    /// The time of the changes.
    package let time: Int64
    /// The program that the notes of new versions name; empty for a browser, which is the device.
    private let program: String
    private let deviceName: String

    /// One operation without its number.
    package struct Step: Sendable {
        package let item: Identifier
        package let change: Change
        let content: RevisionContent?

        package init(_ item: Identifier, _ change: Change, _ content: RevisionContent? = nil) {
            self.item = item
            self.change = change
            self.content = content
        }
    }

    /// - Parameter base: The head of the volume if it is nil.
    /// - Throws: `.forbidden` if the account may not change the volume.
    package init(
        _ volume: VolumeRow, of hub: Hub, for caller: Caller, seenUpTo base: UInt64? = nil,
        program: String
    ) async throws {
        self.hub = hub
        self.caller = caller
        self.volume = volume
        self.base = base ?? volume.head
        self.program = program
        names = VolumeNames(volume: volume)
        time = hub.clock()
        deviceName = try await hub.ledger.read { transaction in
            _ = try transaction.membership.volume(volume.id, of: caller, for: .pageForm)
            return try transaction.row(
                "SELECT name FROM devices WHERE id = $1", [.id(caller.device)])?.text(0) ?? ""
        }
    }

    // MARK: What changes consist of

    package func placement(_ name: String, in parent: Identifier) -> Placement {
        names.placement(name, in: parent, device: deviceName, at: time)
    }

    /// A new version with these contents.
    package func revision(
        _ content: Digest, size: UInt64, parents: [Identifier], named name: String, modified: Int64
    ) -> Revision {
        let note = Revision.Note(
            deviceName: deviceName, person: caller.user, program: program, name: name,
            modified: modified, saved: time)
        return Revision(
            id: .random(), parents: Array(parents.prefix(HubLimits.parents)), content: content,
            size: size, moment: Moment(time: time, device: caller.device), note: note)
    }

    /// A new version with the contents of another one, perhaps of another document.
    ///
    /// - Parameter modified: That of the other version if it is nil.
    package func copy(
        of old: Revision, parents: [Identifier], named name: String, modified: Int64? = nil
    ) async throws -> (Revision, RevisionContent) {
        let volume = volume.id
        let content = try await hub.ledger.read { try $0.content(of: old.id, in: volume) }
        let new = revision(
            old.content, size: old.size, parents: parents, named: name,
            modified: modified ?? old.note.modified)
        return (new, content)
    }

    package static func modified(_ time: Int64) -> [UInt8] {
        withUnsafeBytes(of: time.bigEndian) { Array($0) }
    }

    /// Makes a directory.
    package func folder(named name: String, in parent: Identifier) -> Step {
        Step(
            .random(),
            .create(
                Creation(
                    kind: .directory, placement: placement(name, in: parent),
                    attributes: ["mode": [0o1, 0o355]])))
    }

    /// Makes a document, which may get another name (`Creation.placement`).
    package func document(
        named name: String, in parent: Identifier, _ contents: StoredContents
    ) -> (step: Step, creation: Creation) {
        let creation = Creation(
            kind: .file, placement: placement(name, in: parent),
            revision: revision(contents, parents: [], named: name),
            attributes: [
                "mode": [0o1, 0o244], "modified": VolumeChanges.modified(contents.modified),
            ])
        return (Step(.random(), .create(creation), contents.content), creation)
    }

    /// Saves a version that follows the ones that the client has seen. If another one was saved
    /// meanwhile, both are kept, in conflict.
    package func edit(
        _ item: ItemState, after parents: [Identifier], _ contents: StoredContents
    ) -> (steps: [Step], revision: Revision) {
        let revision = revision(contents, parents: parents, named: item.name)
        return (
            [
                Step(item.id, .edit(revision), contents.content),
                Step(
                    item.id,
                    .attribute("modified", VolumeChanges.modified(contents.modified))),
            ], revision
        )
    }

    private func revision(
        _ contents: StoredContents, parents: [Identifier], named name: String
    ) -> Revision {
        revision(
            names.content(contents.manifest), size: contents.manifest.size, parents: parents,
            named: name, modified: contents.modified)
    }

    // MARK: Committing

    /// How often another request of the same device, at another hub, may take the number first.
    private static let attempts = 20

    package func commit(_ step: Step) async throws -> Verdict {
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
    package func commit(_ steps: [Step], isGroup: Bool = true) async throws -> [Verdict] {
        guard !steps.isEmpty else { return [] }
        return try await hub.perDeviceLock.alone(
            caller.device,
            waiting: {
                for attempt in 1... {
                    do {
                        return try await commitOnce(steps, isGroup: isGroup)
                    } catch let failure as Failure
                        where [.copied, .gap].contains(failure.code)
                        && attempt < VolumeChanges.attempts
                    {
                        continue
                    }
                }
                return []
            })
    }

    private func commitOnce(_ steps: [Step], isGroup: Bool) async throws -> [Verdict] {
        let (caller, volume) = (caller, volume)
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
                    base: base, change: step.change),
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

extension ItemState {
    /// The root is not in the ledger.
    package static var volumeRoot: ItemState {
        let placement = Placement(
            parent: .root, name: "", key: NameKey([]), spare: "", spareKey: NameKey([]))
        return ItemState(
            id: .root, kind: .directory, placement: placement, placedBy: .unknown,
            placedAt: Moment(time: 0, device: .root), placedSequence: 0, sequence: 0)
    }

    /// The permission bits that devices share; nil if none has told them.
    package var mode: UInt16? {
        guard let bytes = attributes["mode"]?.value, bytes.count == 2 else { return nil }
        return UInt16(bytes[0]) << 8 | UInt16(bytes[1])
    }
}
