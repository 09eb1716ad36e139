import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Changes an item from a form, by operations as a device sends them.
struct PageOperation {
    private let place: Place
    private let form: Fields
    private let changes: VolumeChanges

    /// - Throws: `.malformed` if the form does not come from a page of this session.
    init(_ place: Place) async throws {
        self.place = place
        form = try await place.session.form()
        changes = try await place.changes(form)
    }

    /// What a page says after a change. The address has the raw value.
    enum Outcome: String {
        case restored, undeleted, renamed, settled, conflict
        case saved, unchanged, uploaded, conflicts, beside, made, named, moved, movedBeside
        case deleted, partly

        /// - Parameter name: What the page shows.
        func sentence(_ name: String) -> String {
            switch self {
            case .restored: "The version that you chose is the current one now."
            case .undeleted: "\(name) is back."
            case .renamed:
                "It is back as \(name), because another item has its former name now."
            case .settled: "The conflict is settled. The other versions are in the list."
            case .conflict: "Another version was saved meanwhile, so there is a conflict."
            case .saved: "Your text is the current version now."
            case .unchanged: "The text is the same as before, so there is no new version."
            case .uploaded: "What you sent is saved."
            case .conflicts:
                "Other versions were saved meanwhile. Both are kept: look at the documents that "
                    + "are in conflict."
            case .beside:
                "Something else got the same name meanwhile. What you sent is kept beside it, with "
                    + "the name of this browser."
            case .made: "The folder \(name) is made."
            case .named: "It is called \(name) now."
            case .moved: "\(name) is here now."
            case .movedBeside:
                "It is here as \(name), because another item got the name that you chose."
            case .deleted: "It is among the deleted items now."
            case .partly:
                "Something in it was changed meanwhile, and is kept. The rest is deleted."
            }
        }

        func redirect(to address: String) -> Response {
            Answer.redirect(to: address + "?done=\(rawValue)")
        }
    }

    func answer(_ view: PagePath.View) async throws -> Response {
        switch view {
        case .restore: return try await restore().redirect(to: place.address())
        case .settle: return try await settle().redirect(to: place.address())
        case .makeFolder: return try await makeFolder()
        case .rename:
            let outcome = try await move(
                to: place.item.placement.parent, named: form["name"] ?? "")
            return (outcome == .moved ? .named : outcome).redirect(to: place.address())
        case .move:
            guard let target = form["to"].flatMap({ Identifier($0) }) else {
                throw Failure(.malformed, "The form does not say to which folder.")
            }
            return try await move(to: target, named: place.item.name).redirect(to: place.address())
        case .delete: return try await delete()
        default: return try await undelete().redirect(to: place.address())
        }
    }

    static let changed = Failure(
        .collection,
        "This has changed meanwhile. Load its page again. Nothing was done.")

    /// - Throws: `.collection` if the hub decided that the change comes too late.
    private func commit(_ change: Change, _ content: RevisionContent? = nil) async throws
        -> Verdict
    {
        let verdict = try await changes.commit(.init(place.item.id, change, content))
        if case .overruled = verdict { throw PageOperation.changed }
        return verdict
    }

    // MARK: Versions

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
            _ = try await commit(.resolve(others, nil))
            return .settled
        }
        return try await commit(kept, parents: shown) { .resolve(others, $0) } == .conflict
            ? .conflict : .settled
    }

    /// Commits a new version with the contents of an old one.
    private func commit(
        _ old: Revision, parents: [Revision], _ change: (Revision) -> Change
    ) async throws -> Verdict {
        let (new, content) = try await changes.copy(
            of: old, parents: parents.map(\.id), named: place.item.name, modified: changes.time)
        return try await commit(change(new), content)
    }

    private func undelete() async throws -> Outcome {
        try await commit(.restore) == .bounced ? .renamed : .undeleted
    }

    // MARK: Names and places

    private func makeFolder() async throws -> Response {
        try place.checkCanChange()
        guard place.item.kind == .directory else {
            throw Failure(.malformed, "Folders can be made in folders only.")
        }
        let name = form["name"] ?? ""
        try await checkIsFree(name, in: place.item.id)
        let step = changes.folder(named: name, in: place.item.id)
        switch try await changes.commit(step) {
        case .overruled: throw PageOperation.changed
        case .bounced: return Outcome.beside.redirect(to: place.address())
        case .unified(let other):
            return Outcome.made.redirect(to: PagePath.address(place.volume.id, other))
        default: return Outcome.made.redirect(to: PagePath.address(place.volume.id, step.item))
        }
    }

    /// - Throws: `.malformed` if no item can have the name, or another one has it.
    private func checkIsFree(_ name: String, in folder: Identifier) async throws {
        if let objection = Name(name).objection {
            throw Failure(.malformed, "\(objection) Nothing was done.")
        }
        let (key, volume) = (changes.names.key(name), place.volume.id)
        let holder = try await changes.hub.ledger.read {
            try $0.holder(of: key, in: folder, volume: volume)
        }
        guard holder == nil || holder == place.item.id else {
            throw Failure(
                .malformed,
                "There is something of the name \(Shown.name(name)) already. Nothing was done.")
        }
    }

    private func move(to folder: Identifier, named name: String) async throws -> Outcome {
        try place.checkCanMove()
        // Somebody else has moved it since the page was shown.
        guard place.item.placedSequence <= changes.base else { throw PageOperation.changed }
        let target = try await Place(folder, in: place.volume, place.session)
        guard target.item.kind == .directory, target.item.life.isAlive else {
            throw Failure(.malformed, "Nothing can be moved there. Nothing was done.")
        }
        guard target.item.id != place.item.id,
            !target.folders.contains(where: { $0.id == place.item.id })
        else { throw Failure(.malformed, "A folder cannot be moved into itself.") }
        try await checkIsFree(name, in: target.item.id)
        let placement = changes.placement(name, in: target.item.id)
        return try await commit(.move(placement, base: place.item.placedBy)) == .bounced
            ? .movedBeside : .moved
    }

    /// What is deleted goes to the trash, as when a device deletes it. What the page did not show
    /// stays.
    private func delete() async throws -> Response {
        try place.checkCanMove()
        let step = VolumeChanges.Step(place.item.id, .delete(current: nil))
        switch try await changes.commit(step) {
        case .overruled(.partly): return Outcome.partly.redirect(to: place.address())
        case .overruled(.alreadyGone): break
        case .overruled: throw PageOperation.changed
        default: break
        }
        return Outcome.deleted.redirect(
            to: PagePath.address(place.volume.id, place.item.placement.parent))
    }
}

extension Place {
    /// The changes of a form, which has seen what its page showed.
    ///
    /// - Throws: `.collection` if the page showed another epoch of the volume.
    func changes(_ form: Fields) async throws -> VolumeChanges {
        if session.visit != nil { return try await changes(after: form["shown"] ?? "") }
        let parts = form["position"]?.split(separator: "-") ?? []
        guard parts.count == 2, parts[0] == volume.epoch.description,
            let head = UInt64(parts[1]), head <= self.head
        else { throw PageOperation.changed }
        return try await VolumeChanges(
            volume, of: session.hub, for: session.caller, seenUpTo: head, program: "")
    }

    /// The changes of a visitor of a link, who is not told the volume's position: they have seen
    /// everything up to the version that the page showed.
    private func changes(after shown: String) async throws -> VolumeChanges {
        let seen = shown.isEmpty ? head : try await Document(self).revision(shown).sequence
        return try await VolumeChanges(
            volume, of: session.hub, for: session.caller, seenUpTo: min(seen, head), program: "")
    }

    /// - Throws: `.malformed` for what is deleted.
    func checkCanChange() throws(Failure) {
        guard item.life.isAlive else {
            throw Failure(.malformed, "This was deleted. Undelete it first. Nothing was done.")
        }
    }

    /// - Throws: `.malformed` for what is deleted, and for the root of a volume.
    func checkCanMove() throws(Failure) {
        try checkCanChange()
        guard !isRoot else {
            throw Failure(.malformed, "A volume is not moved, renamed or deleted on a page.")
        }
    }
}
