import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// The state of a volume.
package struct VolumeStatus: Sendable {
    package var name: String
    package var store: String
    /// The working tree's path.
    package var tree: String
    /// Whether the tree is being compared with the journal.
    package var scanning: Bool
    package var scanned: Int
    package var items: Int
    package var documents: Int
    package var versions: Int
    /// Events that the recorder has not processed yet, and documents that it has not recorded.
    package var pendingEvents: Int
    package var waitingToBeCut: Int
    /// The bytes of the store without the tree.
    package var storeBytes: Int64
    /// The parts of these that the journal takes, and that are reserved for it on a full disk.
    package var journalBytes: Int64
    package var reserveBytes: Int64
    /// The bytes that can be removed for programs that need space.
    package var freeableBytes: Int64
    /// Sentences for people about what is wrong.
    package var problems: [String]
    /// Sentences for people where nothing is wrong.
    package var notices: [String]
}

/// The state of a document.
package struct DocumentStatus: Sendable {
    package var id: Identifier
    package var kind: Item.Kind
    package var state: DocumentHistory.State
    /// The durability of its present contents.
    package var durability: Version.Durability
    package var versions: Int
    package var size: UInt64
    package var currentVersion: Int?
    /// The id of the current version.
    package var current: Identifier?
    package var conflicts: Int
}

package struct DeletedDocument: Sendable {
    package var id: Identifier
    package var name: Name
    /// Nanoseconds since 1970.
    package var deletedAt: Int64
    package var versions: Int
    package var size: UInt64
}

// Operations for the control socket.
extension Volume {
    /// Sets the present time of the hub's clock (nanoseconds since 1970), by which versions age.
    package func hear(hubTime time: Int64) {
        recorder.retention.time.hear(
            hubTime: Timestamp(nanoseconds: time), uptime: settings.clocks.uptime())
    }

    /// The number of documents that are missing from the tree and not treated as deleted.
    package var missingDocuments: Int { recorder.signal.look { recorder.report.missing } }

    /// Treats these as deleted from now on, because a person says so.
    package func acceptMissing() throws(VolumeError) {
        try recorder.carryOut { (recorder) throws(VolumeError) in recorder.scanner.acceptMissing() }
    }

    /// Whether the tree or a part of it is being compared with the journal.
    package var isScanning: Bool { recorder.signal.look { recorder.report.isScanning } }

    package func status() throws(VolumeError) -> VolumeStatus {
        var report = recorder.signal.look { recorder.report }
        report.problems.merge(report.losses) { $1 }
        let counts = try journal.read { reader in
            (
                items: try reader.itemCount(), documents: try reader.documentCount(),
                versions: try reader.versionCount()
            )
        }
        return VolumeStatus(
            name: identity.name, store: identity.store, tree: identity.store + "/tree",
            scanning: report.isScanning, scanned: report.scannedItems, items: counts.items,
            documents: counts.documents, versions: counts.versions,
            pendingEvents: Int(events.total - report.eventsTaken), waitingToBeCut: report.pending,
            storeBytes: historyBytes + journalBytes + store.reserve.size,
            journalBytes: journalBytes, reserveBytes: store.reserve.size,
            freeableBytes: freeableBytes,
            problems: report.problems.sorted { $0.key < $1.key }.map(\.value),
            notices: [report.letGo, pinned.notice].compactMap(\.self))
    }

    private var journalBytes: Int64 {
        ["", "-wal", "-shm"].reduce(0) { total, ending in
            var status = stat()
            guard cl_fstatat(AT_FDCWD, store.journalPath + ending, &status, 0) == 0 else {
                return total
            }
            return total + Int64(status.st_blocks) * 512
        }
    }

    private var historyBytes: Int64 {
        var total = Int64(packs.bytes())
        for entry in (try? stash.entries()) ?? [] {
            var status = stat()
            if cl_fstatat(stash.directory, entry.file, &status, 0) == 0 {
                total += Int64(status.st_blocks) * 512
            }
        }
        return total
    }

    /// The state of the document at a path.
    ///
    /// - Throws: `.notFound` if there is none or the file is local.
    package func status(at path: [Name]) throws(VolumeError) -> DocumentStatus {
        try catchUp(with: path, timeoutSeconds: 5)
        return try journal.read { reader in
            let item = try self.existing(path, reader)
            let versions = try reader.versions(of: item.key)
            let current = versions.first { $0.id == item.current }
            return DocumentStatus(
                id: item.id, kind: item.kind, state: try self.state(of: item, reader),
                durability: try self.durability(of: item, current, at: path, reader),
                versions: versions.count, size: item.size, currentVersion: current?.number,
                current: current?.id, conflicts: versions.count { $0.kind == .conflict })
        }
    }

    func existing(_ path: [Name], _ reader: Reader) throws -> Item {
        guard let item = try item(at: path, reader) else {
            let shown = path.shown
            throw VolumeError(
                .notFound,
                "\(shown) is not a document of this volume: it does not exist, or is a temporary "
                    + "or ignored file.")
        }
        return item
    }

    package func deletedDocuments(in path: [Name], visibleTo user: Requester = .root)
        throws(VolumeError) -> [DeletedDocument]
    {
        try catchUp(withFocus: .deleted(from: path), timeoutSeconds: 5)
        return try deletedDocuments(in: path, visibleTo: user) { _, _ in true }
    }

    /// The deleted documents that once had this path.
    package func earlierDocuments(at path: [Name], visibleTo user: Requester = .root)
        throws(VolumeError) -> [DeletedDocument]
    {
        guard let name = path.last else { return [] }
        let directory = Array(path.dropLast())
        try catchUp(withFocus: .deleted(from: directory), timeoutSeconds: 5)
        return try deletedDocuments(in: directory, visibleTo: user) { item, versions in
            item.name == name || versions.contains { $0.name == name }
        }
    }

    private func deletedDocuments(
        in path: [Name], visibleTo user: Requester, where isMeant: (Item, [Version]) -> Bool
    ) throws(VolumeError) -> [DeletedDocument] {
        try journal.read { reader in
            guard let directory = try self.item(at: path, includesDeleted: true, reader) else {
                throw VolumeError(
                    .notFound,
                    "There is no directory \(path.shown) here.")
            }
            return try reader.deletedItems(in: directory.key).compactMap { item in
                let protection = try self.protection(of: item, reader)
                let all = try reader.versions(of: item.key)
                let versions = all.visible(to: user, of: protection).map { all[$0] }
                guard !versions.isEmpty, isMeant(item, versions) else { return nil }
                return DeletedDocument(
                    id: item.id, name: item.name, deletedAt: item.deleted ?? 0,
                    versions: versions.count, size: versions.last?.size ?? 0)
            }
        }
    }

    /// Sets a label that keeps a version for ever; nil removes it.
    package func setLabel(_ label: String?, version number: Int, at path: [Name])
        throws(VolumeError)
    {
        try catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in
            try t.setLabel(try self.version(number, at: path, t).id, label)
        }
    }

    /// Removes a version. Its bytes are removed by the next sweep.
    ///
    /// - Throws: `.invalid` if it must stay (`RemovalObstacle`).
    package func forget(version number: Int, at path: [Name]) throws(VolumeError) {
        try catchUp(with: path, timeoutSeconds: 5)
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
        let found = try item(at: path, includesDeleted: true, reader)
        guard let item = found, let version = try reader.version(of: item.key, number: number)
        else {
            throw VolumeError(
                .notFound,
                "\(path.last?.text ?? "/") has no version \(number). "
                    + "`fsctl versions` lists its versions.")
        }
        return version
    }

    /// Counters that only grow, for tests of costs.
    package var statistics: [String: Int] {
        [
            "transactions": journal.transactionCount, "chunkReads": packs.readCount,
            "events": Int(events.total),
        ]
    }
}
