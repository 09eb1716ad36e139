import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Changes an item from a form, by an operation as a device sends it.
struct PageOperation {
    private let place: Place
    private let form: Fields

    /// - Throws: `.malformed` if the form does not come from a page of this session.
    init(_ place: Place) async throws {
        self.place = place
        form = try await place.session.form()
    }

    /// What the page says after the change. The address has the raw value.
    enum Outcome: String {
        case restored, undeleted, renamed, settled, conflict

        func sentence(_ name: String) -> String {
            switch self {
            case .restored: "The version that you chose is the current one now."
            case .undeleted: "\(name) is back."
            case .renamed:
                "It is back as \(name), because another item has its former name now."
            case .settled: "The conflict is settled. The other versions are in the list."
            case .conflict: "Another version was saved meanwhile, so there is a conflict."
            }
        }
    }

    func answer(_ view: PagePath.View) async throws -> Response {
        let outcome =
            switch view {
            case .restore: try await restore()
            case .settle: try await settle()
            default: try await undelete()
            }
        return Answer.redirect(to: place.address() + "?done=\(outcome.rawValue)")
    }

    // MARK: The changes

    /// Makes a former version current, as a new version with the same contents.
    private func restore() async throws -> Outcome {
        let document = Document(place)
        let old = try await document.revision(form["revision"] ?? "")
        // The new version follows the one that the page showed as current. If that is another one
        // by now, both are in conflict.
        let parents = try await document.revisions(form.all("shown"))
        return try await commit(old, parents: parents) { .edit($0) } == .conflict
            ? .conflict : .restored
    }

    /// Keeps one of the versions that are in conflict. The others stay in the history.
    private func settle() async throws -> Outcome {
        let document = Document(place)
        let kept = try await document.revision(form["keep"] ?? "")
        let shown = try await document.revisions(form.all("shown"))
        guard shown.contains(where: { $0.id == kept.id }) else { throw PageOperation.changed }
        let others = shown.map(\.id).filter { $0 != kept.id }
        guard kept.id != place.item.current?.id else {
            _ = try await commit(.resolve(others, nil), nil)
            return .settled
        }
        return try await commit(kept, parents: shown) { .resolve(others, $0) } == .conflict
            ? .conflict : .settled
    }

    private func undelete() async throws -> Outcome {
        try await commit(.restore, nil) == .bounced ? .renamed : .undeleted
    }

    private static let changed = Failure(
        .collection, "The document has changed meanwhile. Load its page again. Nothing was done.")

    /// Commits a new version with the contents of an old one.
    private func commit(
        _ old: Revision, parents: [Revision], _ change: (Revision) -> Change
    ) async throws -> Verdict {
        let (volume, caller, time) = (place.volume.id, place.session.caller, place.now)
        let (content, device) = try await place.session.hub.ledger.read { transaction in
            let devices = try transaction.devices.entries(of: caller.account)
            return (
                try transaction.content(of: old.id, in: volume),
                devices.first { $0.id == caller.device }?.name ?? ""
            )
        }
        let note = Revision.Note(
            deviceName: device, person: caller.user, program: "", name: place.item.name,
            modified: time, saved: time)
        let new = Revision(
            id: .random(), parents: parents.prefix(HubLimits.parents).map(\.id),
            content: old.content, size: old.size,
            moment: Moment(time: time, device: caller.device), note: note)
        return try await commit(change(new), content)
    }

    // MARK: Committing

    /// How often another request of the same session may take the number first.
    private static let attempts = 20

    private func commit(_ change: Change, _ content: RevisionContent?) async throws -> Verdict {
        let base = try base()
        for attempt in 1... {
            do {
                return try await commit(change, content, base)
            } catch let failure as Failure
                where [.copied, .gap].contains(failure.code) && attempt < PageOperation.attempts
            {
                continue
            }
        }
        throw PageOperation.changed
    }

    /// The position of the journal that the page showed.
    private func base() throws(Failure) -> UInt64 {
        let parts = form["position"]?.split(separator: "-") ?? []
        guard parts.count == 2, parts[0] == place.volume.epoch.description,
            let head = UInt64(parts[1]), head <= place.head
        else { throw PageOperation.changed }
        return head
    }

    private func commit(
        _ change: Change, _ content: RevisionContent?, _ base: UInt64
    ) async throws -> Verdict {
        let (volume, caller, hub) = (place.volume, place.session.caller, place.session.hub)
        let (epoch, last) = try await hub.ledger.read { transaction in
            let epoch = try transaction.devices.epoch(of: caller.device)
            return (
                epoch,
                try transaction.operations.lastNumber(
                    of: caller.device, epoch: epoch, in: volume.id)
            )
        }
        let operation = Operation(
            id: OperationID(device: caller.device, epoch: epoch, number: last + 1),
            item: place.item.id, moment: Moment(time: place.now, device: caller.device),
            base: base, change: change)
        let request = CommitRequest(
            device: caller.device, epoch: epoch, volumeEpoch: volume.epoch, collection: nil,
            operations: [OperationEntry(operation, content: content)], sent: place.now)
        let answer = try await hub.commit(
            request, to: volume.id, for: caller, keepsContents: false)
        guard let result = answer.results.first, let verdict = result.verdict else {
            let refusal = answer.results.first?.refusal
            throw Failure(
                refusal?.code == .quota ? .quota : .malformed,
                refusal?.message ?? "The hub refused the change.")
        }
        if case .overruled = verdict { throw PageOperation.changed }
        return verdict
    }
}
