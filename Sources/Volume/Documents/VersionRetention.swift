import Journal
import Model

/// Decides on a person's behalf which versions are kept: those with a label are, and versions are
/// forgotten or purged on request.
package struct VersionRetention: Sendable {
    let items: ItemLookup
    private var journal: Journal { items.journal }
    private var recorder: Recorder { items.recorder }

    /// Sets the present time of the hub's clock (nanoseconds since 1970), by which versions age.
    package func hear(hubTime time: Int64) {
        recorder.retention.time.hear(
            hubTime: Timestamp(nanoseconds: time), uptime: recorder.settings.clocks.uptime())
    }

    /// Sets a label that keeps a version for ever; nil removes it.
    package func setLabel(_ label: String?, version number: Int, at path: [Name])
        throws(VolumeError)
    {
        try items.catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in
            try t.setLabel(try self.version(number, at: path, t).id, label)
        }
    }

    /// Removes a version. Its bytes are removed by the next sweep.
    ///
    /// - Throws: `.invalid` if it must stay (`RemovalObstacle`).
    package func forget(version number: Int, at path: [Name]) throws(VolumeError) {
        try items.catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in
            let version = try self.version(number, at: path, t)
            if let key = try t.item(ofVersion: version.id), let item = try t.item(key),
                let obstacle = try RemovalCheck(item, t.versions(of: key), t)
                    .obstacle(to: version)
            {
                throw VolumeError(
                    .invalid, "Version \(number) of \(path.shown) \(obstacle.words)")
            }
            try t.remove(version: version.id)
        }
        recorder.sweepSoon()
    }

    private func version(_ number: Int, at path: [Name], _ reader: Reader) throws -> Version {
        let found = try items.item(at: path, includesDeleted: true, reader)
        guard let item = found, let version = try reader.version(of: item.key, number: number)
        else {
            throw VolumeError(
                .notFound,
                "\(path.last?.text ?? "/") has no version \(number). "
                    + "`fsctl versions` lists its versions.")
        }
        return version
    }

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
        try items.catchUp(with: path, timeoutSeconds: 5)
        // Deleted documents are recorded first, if there is room.
        try items.catchUp(withFocus: .deleted(from: path), timeoutSeconds: 5)
        try items.catchUp(withFocus: .deleted(from: path.dropLast()), timeoutSeconds: 5)
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
                        let protection = try items.protection(of: document, reader)
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
        let found = try items.item(at: path, includesDeleted: true, reader)
        var all = [found].compactMap(\.self)
        if let name = path.last,
            let parent = try items.item(at: path.dropLast(), includesDeleted: true, reader)
        {
            all += try reader.deletedItems(in: parent.key).filter {
                $0.name == name && $0.key != found?.key
            }
        }
        guard !all.isEmpty else {
            throw VolumeError(
                .notFound,
                "\(path.shown) is not in this volume, and no deleted item there is known.")
        }
        return all.map { ($0, path) }
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
