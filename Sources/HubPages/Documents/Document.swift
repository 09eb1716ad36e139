import Hub
import HubProtocol
import Model
import Reconcile

/// A document and its versions.
struct Document: Sendable {
    let place: Place

    init(_ place: Place) { self.place = place }

    /// The newest versions.
    struct History: Sendable {
        /// The newest first, in the order of the volume's journal.
        let revisions: [Revision]
        let hasMore: Bool
    }

    /// - Parameter before: Only versions before this position of the journal.
    func history(before: UInt64? = nil) async throws -> History {
        let (volume, item) = (place.volume.id, place.item.id)
        let rows = try await place.session.hub.ledger.read {
            try $0.revisions(
                of: item, in: volume, before: before ?? UInt64(Int64.max),
                limit: PageLimits.versions + 1)
        }
        return History(
            revisions: Array(rows.prefix(PageLimits.versions)),
            hasMore: rows.count > PageLimits.versions)
    }

    /// Returns a version of this document: the current one if the address names none.
    ///
    /// - Throws: `.notFound`.
    func revision(_ text: String?) async throws -> Revision {
        let (volume, item) = (place.volume.id, place.item)
        guard let text else {
            guard let current = item.current else {
                throw Failure(.notFound, "\(place.name) has no contents yet.")
            }
            return current
        }
        guard text.utf8.count == 32, let id = Identifier(text) else { throw Document.unknown }
        if let live = place.live.first(where: { $0.id == id }) { return live }
        return try await place.session.hub.ledger.read { transaction in
            guard try transaction.item(of: id, in: volume) == item.id,
                let revision = try transaction.revision(id, in: volume)
            else { throw Document.unknown }
            return revision
        }
    }

    /// Returns the file of a version, or of a package the one of this number, from 0.
    ///
    /// - Throws: `.notFound`; `.busy`, `.tooLarge` if it takes too much memory.
    func file(_ number: Int = 0, of revision: Revision) async throws -> Manifest.Entry {
        let (volume, budget) = (place.volume.id, place.session.budget)
        let found = try await place.session.hub.ledger.read {
            try Content.entries(of: revision.id, in: volume, $0, holding: budget) { at, _ in
                at == number
            }
        }
        guard let entry = found.first, entry.kind == .file else {
            throw Failure(.notFound, "This version has no such file.")
        }
        return entry
    }

    /// The files of a package as its page lists them. No name is one of the views of the pages,
    /// because a template would take the page's value where this one is nil.
    struct Part {
        /// The address of a file.
        let part: String?
        let inner: String
        let bytes: String?
    }

    /// What a page shows of a version: its preview, or the first files of a package and how many
    /// others there are.
    func contents(of shown: Revision?) async throws -> (
        preview: Preview?, parts: (shown: [Part], hidden: String?)
    ) {
        guard let shown else { return (nil, ([], nil)) }
        guard place.item.kind == .package else {
            let preview = place.item.kind == .file ? try await Preview(self, shown) : nil
            return (preview, ([], nil))
        }
        let (entries, count) = try await entries(of: shown, upTo: PageLimits.packageEntries)
        let parts = entries.enumerated().map { number, entry in
            let isFile = entry.kind == .file
            return Part(
                part: isFile
                    ? place.address(.file) + "?revision=\(shown.id)&entry=\(number)" : nil,
                inner: Shown.name(String(decoding: entry.path, as: UTF8.self)),
                bytes: isFile ? Shown.size(entry.size) : nil)
        }
        let hidden = count - parts.count
        return (nil, (parts, hidden > 0 ? Shown.count(hidden, "more file", "more files") : nil))
    }

    /// The page where this version is edited: the current one, if it is a text or empty.
    func editAddress(of shown: Revision?, _ preview: Preview?) -> String? {
        let size = shown?.size ?? 0
        guard place.hasForms, place.item.life.isAlive, place.item.kind == .file,
            shown?.id == place.item.current?.id, FileType(name: place.item.name).mayBeText,
            size == 0 || preview?.text != nil, size <= UInt64(PageLimits.editedBytes)
        else { return nil }
        return place.address(.edit)
    }

    /// Returns the first files and directories of a package, and how many there are.
    private func entries(
        of revision: Revision, upTo limit: Int
    ) async throws -> ([Manifest.Entry], Int) {
        let (volume, budget) = (place.volume.id, place.session.budget)
        return try await place.session.hub.ledger.read { transaction in
            var count = 0
            let parts = try Content.rows(of: revision.id, in: volume, transaction, holding: budget)
            { number, _ in
                count = number + 1
                return number < limit
            }
            return (parts, count)
        }
    }

    /// - Throws: `.notFound` if one of them is not a version of this document; `.tooLarge`.
    func revisions(_ ids: [String]) async throws -> [Revision] {
        guard ids.count <= HubLimits.conflicts + 1 else {
            throw Failure(.tooLarge, "A form names at most \(HubLimits.conflicts + 1) versions.")
        }
        var all: [Revision] = []
        for id in ids { all.append(try await revision(id)) }
        return all
    }

    private static let unknown = Failure(
        .notFound, "This document has no such version, or it was removed.")

    /// As in `2026-11-21 08:15:30 UTC, Laptop, 0a1b2c3d`. The last part is the beginning of the
    /// version's id, which is the same on all devices.
    func label(_ revision: Revision) -> String {
        [ShownTime(revision.note.saved).exact, author(revision), shortID(revision)]
            .filter { !$0.isEmpty }.joined(separator: ", ")
    }

    /// What a version is beside others: current, in conflict, or a former one.
    func title(_ revision: Revision) -> String {
        if revision.id == place.item.current?.id { return "Current version" }
        return place.live.contains { $0.id == revision.id }
            ? "Version in conflict" : "Former version"
    }

    /// The device that saved the version, and the person in a volume of several.
    func author(_ revision: Revision) -> String {
        let (person, device) = (revision.note.person, Shown.name(revision.note.deviceName))
        return place.isShared && !person.isEmpty ? "\(Shown.name(person)), \(device)" : device
    }

    func shortID(_ revision: Revision) -> String { String(revision.id.description.prefix(8)) }
}

extension LedgerTransaction {
    /// The document to which a version belongs.
    func item(of revision: Identifier, in volume: Identifier) throws -> Identifier? {
        let found = try row(
            "SELECT item FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(revision)])
        return try found.map { row in
            let item = try row.id(0)
            return try alias(of: item, in: volume) ?? item
        }
    }

    /// The versions of a document, the newest first.
    func revisions(
        of item: Identifier, in volume: Identifier, before: UInt64, limit: Int
    ) throws -> [Revision] {
        try rows(
            """
            SELECT id FROM revisions WHERE volume = $1 AND item = $2 AND sequence < $3
            ORDER BY sequence DESC LIMIT $4
            """, [.id(volume), .id(item), .count(before), .integer(Int64(limit))]
        ).compactMap { try revision($0.id(0), in: volume) }
    }
}
