import CLinux
import Glibc
import Journal
import Model

/// A document with changes that are only on this device.
package struct UnsafeDocument: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// Open for writing, or saved and not recorded yet.
        case unrecorded
        /// It was not sent to the hub.
        case unsent
        /// Its deletion was not sent to the hub.
        case undeleted
        /// It was sent, and the hub has not confirmed it.
        case sent
        case refused
        /// Its name is not valid UTF-8, so it is never sent.
        case nameless
        /// The ignore file names it or a directory above it, so it is never sent.
        case ignored
    }

    /// Stands for the path of something that the user who asks may not know.
    package static let unnamed = "something in a place that you may not list"
    /// What has changed in a directory or package is known only after the comparison.
    package static let comparing = "the volume is still being compared with its journal"

    package var path: [Name]
    package var reason: Reason
}

/// Tells how safely documents are stored: on this disk, or at the hub too.
package struct DocumentSafety: Sendable {
    let items: ItemLookup
    private var journal: Journal { items.journal }
    private var recorder: Recorder { items.recorder }

    /// The durability of a document; for a directory that of everything below it; for a symlink
    /// that of its name.
    func durability(
        of item: Item, _ current: Version?, at path: [Name], _ reader: Reader
    ) throws -> Version.Durability {
        if item.kind == .file || item.kind == .package {
            guard item.changed != 0, let current else { return .memory }
            return current.durability
        }
        guard try reader.value("hub.volume") != nil else {
            return try unrecorded(below: path, limit: 1, reader).isEmpty ? .disk : .memory
        }
        let unsafe = try unsafeDocuments(below: path, limit: 1, reader)
        switch unsafe.first?.reason {
        case nil: return .hub
        case .unrecorded: return .memory
        default: return .disk
        }
    }

    /// The documents at or below a path that the hub does not have, at most `limit`.
    package func unsafeDocuments(below path: [Name], limit: Int) throws(VolumeError)
        -> [UnsafeDocument]
    {
        try journal.read { try self.unsafeDocuments(below: path, limit: limit, $0) }
    }

    private func unsafeDocuments(below path: [Name], limit: Int, _ reader: Reader) throws
        -> [UnsafeDocument]
    {
        if !path.isEmpty, let item = try items.item(at: path, reader) {
            let isDirectory = item.kind == .directory || item.kind == .package
            if items.ignoreFile.isLocal(path, isDirectory: isDirectory),
                try reader.hub.mirror(item.id) == nil
            {
                return [UnsafeDocument(path: path, reason: .ignored)]
            }
            guard item.kind == .directory else {
                return try reason(item, reader).map { [.init(path: path, reason: $0)] } ?? []
            }
        }
        var found = try unrecorded(below: path, limit: limit, reader)
        var seen = Set(found.map(\.path))
        func add(_ key: Int64) throws {
            guard let item = try reader.item(key), let names = try reader.path(of: key),
                names.starts(with: path), let reason = try reason(item, reader),
                seen.insert(names).inserted
            else { return }
            found.append(.init(path: names, reason: reason))
        }
        try reader.forEachUnsentItem { key in
            guard found.count < limit else { return false }
            try add(key)
            return true
        }
        return found
    }

    /// Returns nil if the hub has the item as it is.
    private func reason(_ item: Item, _ reader: Reader) throws -> UnsafeDocument.Reason? {
        guard let facts = try ItemFacts(of: item.key, reader) else { return nil }
        return reason(item, facts)
    }

    func reason(_ item: Item, _ facts: ItemFacts) -> UnsafeDocument.Reason? {
        let isDocument = item.kind == .file || item.kind == .package
        if item.deleted == nil, isDocument, item.changed == 0 { return .unrecorded }
        let isNameless = String(validating: item.name.bytes, as: UTF8.self) == nil
        if item.deleted == nil, isNameless { return .nameless }
        if facts.mirror == .refused { return .refused }
        if facts.isInOutbox { return .sent }
        guard facts.isUnsent else { return nil }
        return item.deleted == nil ? .unsent : .undeleted
    }

    /// The documents at or below a path with unrecorded changes, at most `limit`.
    package func unrecorded(below path: [Name], limit: Int, _ reader: Reader) throws
        -> [UnsafeDocument]
    {
        var found: [UnsafeDocument] = []
        var cursor: Int64 = 0
        while found.count < limit {
            let page = try reader.pendingItems(after: cursor, limit: 256)
            guard let last = page.last else { break }
            cursor = last
            for key in page where found.count < limit {
                guard let names = try reader.path(of: key), names.starts(with: path) else {
                    continue
                }
                found.append(UnsafeDocument(path: names, reason: .unrecorded))
            }
        }
        return found
    }

    /// Waits until the document, or everything below the directory, is recorded and on the disk.
    ///
    /// - Throws: `.timeout`, with a message that says what is missing.
    package func wait(
        for durability: Version.Durability, at path: [Name], timeoutSeconds: Double,
        mayKnow: ([Name]) -> Bool = { _ in true }
    ) throws(VolumeError) {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        var pause: UInt32 = 1_000
        while true {
            let left = Double(deadline - cl_clock_monotonic_ns()) / 1e9
            if left > 0, recorder.catchUp(with: .path(path), timeoutSeconds: left),
                let waiting = try waitsFor(path, mayKnow), waiting.isEmpty
            {
                return
            }
            if recorder.isAboutToClose { throw ItemLookup.ending }
            guard cl_clock_monotonic_ns() < deadline else {
                if let obstacle = try obstacle(below: path, mayKnow) {
                    throw VolumeError(.timeout, "Not yet safe on this disk: \(obstacle)")
                }
                let what = try waitsFor(path, mayKnow) ?? path.shown
                throw VolumeError(
                    .timeout,
                    "Not yet safe on this disk: \(what.isEmpty ? "recent changes" : what).")
            }
            usleep(pause)
            pause = min(pause * 2, 50_000)
        }
    }

    /// Records a package at the end of a coordinated write. Returns when it is recorded, or after
    /// `packageClaimSeconds`; it is then recorded later.
    package func recordPackage(at path: [Name]) {
        _ = recorder.catchUp(
            with: .path(path), timeoutSeconds: recorder.settings.packageClaimSeconds)
    }

    /// What keeps a document at or below a path from being recorded until somebody does something
    /// about it, as a database's log does; nil if nothing is known.
    package func obstacle(below path: [Name], _ mayKnow: ([Name]) -> Bool) throws(VolumeError)
        -> String?
    {
        let problems = recorder.reports.report.problems
        guard problems.keys.contains(where: { $0.hasPrefix(VersionRecorder.logProblem) }) else {
            return nil
        }
        return try journal.read { reader in
            for found in try self.unrecorded(below: path, limit: 256, reader)
            where mayKnow(found.path) {
                guard let item = try items.item(at: found.path, reader) else { continue }
                if let problem = problems[VersionRecorder.logProblem + "\(item.key)"] {
                    return try problem.sentence(reader)
                }
            }
            return nil
        }
    }

    /// Describes what is not recorded yet; empty if everything is.
    private func waitsFor(_ path: [Name], _ mayKnow: ([Name]) -> Bool) throws(VolumeError)
        -> String?
    {
        let report = recorder.reports.report
        if try items.lacksItem(path) { return "\(path.shown) is not recorded yet" }
        return try journal.read { reader in
            let item = try items.existing(path, reader)
            let shown = path.shown
            let isCompared = [.directory, .package].contains(item.kind)
            if isCompared, report.isScanning { return UnsafeDocument.comparing }
            guard item.kind == .directory else {
                if item.kind == .file || item.kind == .package, item.changed == 0 {
                    return "\(shown) is open for writing or being recorded"
                }
                return ""
            }
            let names = try self.unrecorded(below: path, limit: 1, reader).first?.path
            guard let names else { return "" }
            return (mayKnow(names) ? names.shown : UnsafeDocument.unnamed) + " is not recorded yet"
        }
    }
}

extension Reader {
    /// Calls `body` with the keys of items that the hub does not have as they are, some of them
    /// several times, until it returns false.
    func forEachUnsentItem(_ body: (Int64) throws -> Bool) throws {
        func addAll<Row>(
            _ page: (_ last: Row?) throws -> [Row], key: (Row) throws -> Int64?
        ) throws -> Bool {
            var last: Row?
            while case let rows = try page(last), !rows.isEmpty {
                last = rows.last
                for row in rows {
                    guard let key = try key(row) else { continue }
                    guard try body(key) else { return false }
                }
            }
            return true
        }
        guard try addAll({ try hub.unsent(after: $0 ?? 0, limit: 256) }, key: { $0 }),
            try addAll(
                { try hub.outbox(limit: 256, after: $0?.number ?? 0) },
                key: { try self.key(of: $0.item) })
        else { return }
        _ = try addAll(
            { try hub.mirrors(.refused, after: $0, limit: 256) }, key: { try self.key(of: $0.id) })
    }
}
