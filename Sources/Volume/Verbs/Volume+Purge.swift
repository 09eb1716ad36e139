import Journal
import Model

extension Volume {
    /// Removes the past versions of a document, or of all documents below a directory, for good,
    /// and all versions of those that were deleted there. Versions with a `RemovalObstacle` stay.
    ///
    /// - Parameters:
    ///   - user: The user who asks. Versions that this user may not see are neither removed nor
    ///     counted.
    ///   - mayWrite: Whether the user may write the item at a path.
    ///   - mayKnow: Whether the user may know the name at a path.
    /// - Throws: `.notFound`; `.timeout`; `.full`.
    package func purge(
        at path: [Name], _ wish: Purge, visibleTo user: Requester = .root,
        mayWrite: ([Name]) -> Bool = { _ in true }, mayKnow: ([Name]) -> Bool = { _ in true }
    ) throws(VolumeError) -> PurgeReport {
        try catchUp(with: path, timeoutSeconds: 5)
        // Deleted documents are recorded first, if there is room.
        try catchUp(withFocus: .deleted(from: path), timeoutSeconds: 5)
        try catchUp(withFocus: .deleted(from: path.dropLast()), timeoutSeconds: 5)
        var report = PurgeReport()
        var subject = PurgeSubject()
        try journal.read { reader in
            for (item, path) in try self.whatWas(at: path, reader) {
                try self.forEachDocument(at: item, path, reader) { document, place in
                    let path = document.deleted == nil ? place : place + [document.name]
                    guard mayKnow(path) else { return }
                    let versions = try reader.versions(of: document.key)
                    var hidden: [Version] = []
                    var isOpen = true
                    if !user.isRoot {
                        let protection = try self.protection(of: document, reader)
                        let visible = Set(versions.visible(to: user, of: protection))
                        hidden = versions.indices.filter { !visible.contains($0) }
                            .map { versions[$0] }
                        isOpen = hidden.isEmpty && protection.now.allowsReading(by: user)
                    }
                    guard mayWrite(place) else {
                        let count = versions.count - hidden.count
                        report.keep(.denied, document.deleted == nil ? count - 1 : count)
                        return
                    }
                    subject.documents.insert(document.key)
                    if isOpen { subject.open.insert(document.key) }
                    subject.hidden.formUnion(hidden.map(\.id))
                }
            }
        }
        let (chosen, start) = (subject, report)
        return try recorder.carryOut { (recorder) throws(VolumeError) in
            try recorder.retention.space.purge(chosen, wish, start)
        }
    }

    /// The item at a path, and all deleted items that had the path.
    private func whatWas(at path: [Name], _ reader: Reader) throws -> [(Item, [Name])] {
        let found = try item(at: path, includesDeleted: true, reader)
        var items = [found].compactMap(\.self)
        if let name = path.last,
            let parent = try item(at: path.dropLast(), includesDeleted: true, reader)
        {
            items += try reader.deletedItems(in: parent.key).filter {
                $0.name == name && $0.key != found?.key
            }
        }
        guard !items.isEmpty else {
            throw VolumeError(
                .notFound,
                "\(path.shown) is not in this volume, and no deleted item there is known.")
        }
        return items.map { ($0, path) }
    }

    /// Calls `body` with each document and the path that decides who may write it. For a deleted
    /// document this is its directory.
    private func forEachDocument(
        at item: Item, _ path: [Name], _ reader: Reader, _ body: (Item, [Name]) throws -> Void
    ) throws {
        switch item.kind {
        case .file, .package:
            try body(item, item.deleted == nil ? path : path.dropLast())
        case .directory:
            let children = try reader.children(of: item.key) + reader.deletedItems(in: item.key)
            for child in children {
                try forEachDocument(at: child, path + [child.name], reader, body)
            }
        case .symlink, .special: break
        }
    }
}
