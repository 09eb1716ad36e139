import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// An entry of a directory as it was at a moment.
package struct PastEntry: Sendable {
    package var item: Item
    /// Its name then, as far as its versions show it.
    package var name: Name
    /// The version of a document at that moment; nil for a directory.
    package var version: Version?
}

/// A step that makes a document what it was at a moment.
package struct RewindStep: Sendable {
    package enum Kind: String, Sendable {
        /// Its contents have changed since.
        case changed
        /// It was deleted since.
        case deleted
        /// It did not exist then.
        case newer
    }

    package var kind: Kind
    /// Its present or last path from the root.
    package var path: [Name]
    package var id: Identifier
    /// Its version at that moment; nil for `.newer`.
    package var version: Version?
    package var protection: DocumentProtection
}

/// Directories as they were, as far as this device has recorded them. Documents appear where they
/// are now or were last, because earlier paths are not recorded.
package struct PastTree: Sendable {
    let items: ItemLookup
    private var journal: Journal { items.journal }

    /// The contents of a directory at a moment (nanoseconds since 1970), sorted by name: documents
    /// that had a version and were not deleted, and directories that contain such documents.
    package func entries(of directory: Int64, at time: Int64) throws(VolumeError) -> [PastEntry] {
        try journal.read { reader in
            var entries: [Name: PastEntry] = [:]
            for item in try self.present(in: directory, at: time, reader) {
                switch item.kind {
                case .file, .package:
                    guard let version = try self.version(of: item, at: time, reader) else {
                        continue
                    }
                    let entry = PastEntry(
                        item: item, name: version.pastName(of: item.name), version: version)
                    let known = entries[entry.name]?.version?.saved ?? .min
                    if known < version.saved { entries[entry.name] = entry }
                case .directory where try self.hadDocuments(item.key, at: time, reader):
                    let entry = PastEntry(item: item, name: item.name)
                    if entries[item.name] == nil { entries[item.name] = entry }
                default: continue
                }
            }
            return entries.values.sorted { $0.name < $1.name }
        }
    }

    /// The present attributes of an item's file in the tree, with its access control list; nil if
    /// there is none. Waits for the recorder if the path is not known yet. Blocks.
    package func status(of item: Item) -> (status: stat, accessList: [UInt8])? {
        guard item.deleted == nil else { return nil }
        if let found = try? statusInTree(item.key) { return found }
        try? items.catchUp(with: nil, timeoutSeconds: 5)
        return try? statusInTree(item.key)
    }

    /// The present protection of a past document. Waits as `status(of:)` does.
    package func protection(of item: Item) -> DocumentProtection {
        _ = status(of: item)
        let found = try? journal.read { reader in
            try items.protection(of: try reader.item(item.key) ?? item, reader)
        }
        return found ?? .unknown
    }

    /// How a past directory and those above it were protected.
    package func protections(of directory: Int64) throws(VolumeError) -> DirectoryProtections {
        try journal.read { try $0.protections(ofDirectory: directory) }
    }

    private func statusInTree(_ key: Int64) throws -> (status: stat, accessList: [UInt8])? {
        let found = try journal.read { reader -> (item: Item, path: [Name])? in
            guard let item = try reader.item(key), item.deleted == nil,
                let path = try reader.path(of: key)
            else { return nil }
            return (item, path)
        }
        guard let found else { return nil }
        let file = try openBeneath(found.path, from: items.tree, flags: O_PATH)
        var status = try file.status()
        guard UInt64(status.st_ino) == found.item.inode else { return nil }
        let protection = Protection(of: file.raw)
        status.st_mode = status.st_mode & S_IFMT | mode_t(protection.mode)
        return (status, protection.accessList)
    }

    package static let noDirectory = VolumeError(.notFound, "There is no such directory.")

    /// The directory at a path, or the one that was deleted last there.
    package func directory(at path: [Name]) throws(VolumeError) -> PastEntry? {
        try items.catchUp(with: path, timeoutSeconds: 5)
        return try journal.read { reader in
            guard let item = try items.item(at: path, includesDeleted: true, reader),
                item.kind == .directory
            else { return nil }
            return PastEntry(item: item, name: item.name)
        }
    }

    /// The steps that make all documents at or below a path what they were at a moment; directories
    /// come before their contents.
    ///
    /// - Throws: `.notFound`; `.timeout`.
    package func rewinding(_ path: [Name], to time: Int64) throws(VolumeError) -> [RewindStep] {
        try items.catchUp(with: path, timeoutSeconds: 30)
        return try journal.read { reader in
            guard let item = try items.item(at: path, includesDeleted: true, reader) else {
                throw VolumeError(
                    .notFound,
                    "\(path.shown) is not in this volume, and no deleted item there is known.")
            }
            var steps: [RewindStep] = []
            try self.rewind(item, path, to: time, reader, &steps)
            return steps
        }
    }

    private func rewind(
        _ item: Item, _ path: [Name], to time: Int64, _ reader: Reader, _ steps: inout [RewindStep]
    ) throws {
        switch item.kind {
        case .directory:
            var seen: Set<Name> = []
            for child in try reader.children(of: item.key) {
                let known = steps.count
                try rewind(child, path + [child.name], to: time, reader, &steps)
                // A newer document at the path of a past one becomes the past one.
                if steps.count == known || steps[known].kind != .newer { seen.insert(child.name) }
            }
            for child in try reader.deletedItems(in: item.key)
            where child.deleted ?? 0 > time && !seen.contains(child.name) {
                let isDocument = child.kind == .file || child.kind == .package
                if isDocument, try version(of: child, at: time, reader) == nil { continue }
                if isDocument { seen.insert(child.name) }
                let place = path + [child.name]
                steps.removeAll { $0.path == place && $0.kind == .newer }
                try rewind(child, place, to: time, reader, &steps)
            }
        case .file, .package:
            let version = try version(of: item, at: time, reader)
            if item.deleted != nil {
                let now = try reader.item(parent: item.parent, name: item.name)
                guard let version, try !shows(now, version, reader) else { return }
                steps.append(
                    RewindStep(
                        kind: .deleted, path: path, id: item.id, version: version,
                        protection: try items.protection(of: item, reader)))
            } else if let version {
                if try shows(item, version, reader) { return }
                steps.append(
                    RewindStep(
                        kind: .changed, path: path, id: item.id, version: version,
                        protection: try items.protection(of: item, reader)))
            } else if try !reader.versions(of: item.key).isEmpty {
                steps.append(
                    RewindStep(
                        kind: .newer, path: path, id: item.id,
                        protection: try items.protection(of: item, reader)))
            }
        case .symlink, .special: return
        }
    }

    private func shows(_ item: Item?, _ version: Version, _ reader: Reader) throws -> Bool {
        guard let current = item?.current else { return false }
        return try current == version.id
            || reader.version(id: current)?.version.content == version.content
    }

    private func present(in directory: Int64, at time: Int64, _ reader: Reader) throws -> [Item] {
        try reader.children(of: directory)
            + reader.deletedItems(in: directory).filter { $0.deleted ?? 0 > time }
    }

    /// The version of a document that was current at a moment.
    private func version(of item: Item, at time: Int64, _ reader: Reader) throws -> Version? {
        // A resolved conflict version is history now, but was never current.
        let lost = try reader.settledVersions(of: item.key)
        return try reader.versions(of: item.key)
            .filter { $0.saved <= time && $0.kind != .conflict && !lost.contains($0.id) }
            .max { ($0.saved, $0.number) < ($1.saved, $1.number) }
    }

    private func hadDocuments(_ directory: Int64, at time: Int64, _ reader: Reader) throws -> Bool {
        for item in try present(in: directory, at: time, reader) {
            switch item.kind {
            case .file, .package:
                if try version(of: item, at: time, reader) != nil { return true }
            case .directory:
                if try hadDocuments(item.key, at: time, reader) { return true }
            case .symlink, .special: continue
            }
        }
        return false
    }
}
