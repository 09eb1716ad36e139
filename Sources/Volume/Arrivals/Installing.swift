import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// One item of a bulk install.
package struct Installation: Sendable {
    package var arrival: Arrival
    /// The id of the directory, which is present already or comes earlier in the list. The root is
    /// the id of the journal's root, or `Identifier.none`.
    package var parent: Identifier
    package var name: Name

    package init(_ arrival: Arrival, in parent: Identifier, name: Name) {
        self.arrival = arrival
        self.parent = parent
        self.name = name
    }
}

package struct InstallationReport: Sendable {
    /// Indexes of the items that were not made, because the name exists or the directory does not.
    package var taken: [Int] = []
    /// The new entries, which the caller must pass to `MountSession.changed(_:)`.
    package var spots: [DirectoryEntry] = []
}

extension Arrivals {
    package typealias Installed = @Sendable (Installation, Int64, Transaction) throws -> Void

    /// Creates directories, symlinks and placeholders in the tree and in the journal without using
    /// the mount, when a device joins for the first time. A parent comes before its children;
    /// existing names are never replaced. `also` is called for each new item, in the same
    /// transaction, with its key. Blocks.
    ///
    /// - Throws: `.full` and others when only a part was created; that part is in the journal or is
    ///   found by the next scan.
    package func install(
        _ installations: [Installation], also: @escaping Installed = { _, _, _ in }
    ) throws(VolumeError) -> InstallationReport {
        var report = InstallationReport()
        var start = 0
        while start < installations.count {
            let part = start..<min(installations.count, start + Installer.countMax)
            let found = try items.recorder.perform { recorder, t in
                var installer = Installer(recorder, t)
                recorder.writer.describesNames = true
                for index in part { try installer.install(installations[index], index, also) }
                return installer.report
            }
            report.taken += found.taken
            report.spots += found.spots
            start = part.upperBound
        }
        return report
    }
}

/// Creates some thousand items in one transaction.
private struct Installer {
    static let countMax = 4096
    /// The largest number of open directories.
    private static let openMax = 256

    let recorder: Recorder
    let t: Transaction
    var report = InstallationReport()
    private var directories: [Identifier: Directory] = [:]
    private let root: Identifier?

    private final class Directory {
        let key: Int64
        let inode: UInt64
        let descriptor: Descriptor
        /// The owner and lists of new items in it.
        let local: LocalAttributes

        init(_ key: Int64, _ descriptor: consuming Descriptor) throws {
            self.key = key
            local = try LocalAttributes(in: descriptor.raw)
            inode = UInt64(try descriptor.status().st_ino)
            self.descriptor = descriptor
        }
    }

    init(_ recorder: Recorder, _ t: Transaction) {
        self.recorder = recorder
        self.t = t
        root = try? t.item(Item.root)?.id
    }

    mutating func install(_ item: Installation, _ index: Int, _ also: Arrivals.Installed) throws {
        let arrival = item.arrival
        guard item.name.isSafe, arrival.kind != .package, arrival.kind != .special,
            let directory = try directory(item.parent), try t.item(id: arrival.item) == nil
        else {
            report.taken.append(index)
            return
        }
        let incoming = recorder.adopter.incoming
        // Each file is created as a placeholder.
        var dataless = arrival
        dataless.isDataless = arrival.kind == .file
        let draft = Name(incoming.newName(arrival.mark))
        try Preparing(arrival: dataless, directory: incoming.directory, barrier: incoming.barrier)
            .make(draft) {
                (_, _) throws(VolumeError) in
            }
        let made = try openBeneath([draft], from: incoming.directory, flags: O_PATH)
        try directory.local.owned(by: arrival.attributes.owner).give(to: made.raw)
        do throws(Errno) {
            try move(draft, made.raw, from: incoming.directory, to: directory, as: item.name)
        } catch {
            incoming.remove(draft)
            guard error == .exists else { throw error }
            report.taken.append(index)
            return
        }
        report.spots.append(DirectoryEntry(directory: directory.inode, name: item.name))
        try note(item, dataless, in: directory, also)
    }

    /// The directory may be read-only for its owner, and so may what is moved: a directory that
    /// gets another parent is written itself.
    private func move(
        _ draft: Name, _ made: Int32, from incoming: Int32, to directory: Directory, as name: Name
    ) throws(Errno) {
        try withOwnerAccess(to: directory.descriptor.raw) { () throws(Errno) in
            try withOwnerAccess(to: made) { () throws(Errno) in
                try draft.withCString { (from) throws(Errno) in
                    try name.withCString { (to) throws(Errno) in
                        _ = try check(
                            cl_renameat2(
                                incoming, from, directory.descriptor.raw, to,
                                UInt32(RENAME_NOREPLACE)))
                    }
                }
            }
        }
    }

    private mutating func note(
        _ item: Installation, _ arrival: Arrival, in directory: Directory,
        _ also: Arrivals.Installed
    ) throws {
        let snapshot: FileSnapshot
        var file: Descriptor?
        if arrival.kind == .directory {
            let made = try openBeneath(
                [item.name], from: directory.descriptor.raw, flags: O_PATH | O_DIRECTORY)
            if Volume.isPackage(name: item.name) {
                try setAttribute("user.concord.package", [UInt8(ascii: "0")], of: made.raw)
            }
            snapshot = FileSnapshot(try made.status())
            file = consume made
        } else {
            snapshot = FileSnapshot(try entryStatus(item.name, in: directory.descriptor.raw))
        }
        var row = Item(
            id: arrival.item, parent: directory.key, name: item.name, kind: arrival.kind,
            inode: snapshot.inode, size: UInt64(max(0, snapshot.size)), modified: snapshot.modified,
            changed: max(1, snapshot.changed))
        if row.hasAttributes {
            row.mode = snapshot.permissions
            row.attributes = attributes(of: arrival, at: item.name, in: directory).encoded
        }
        if arrival.kind == .file, var version = arrival.version {
            row.current = version.id
            row.latest = 1
            row.key = try t.insert(row)
            (version.number, version.kind) = (1, .current)
            version.protection = try recorder.roles.protection(of: row, t)
            try t.insert(version, of: row.key, manifest: arrival.manifest)
            if version.size > 0 { try t.setAbsent(row.key, version: version.id) }
        } else {
            row.key = try t.insert(row)
        }
        if let file {
            try t.setProtection(
                ofDirectory: row.key, Protection(of: file.raw), since: snapshot.changed)
            recorder.state.locations[snapshot.inode] = .directory(row.key)
            directories[arrival.item] = try Directory(row.key, file)
        }
        try also(item, row.key, t)
    }

    /// The attributes of a new item, with those that the file system did not accept marked as
    /// lacking.
    private func attributes(of arrival: Arrival, at name: Name, in directory: Directory)
        -> AttributeList
    {
        guard !arrival.attributes.isEmpty,
            let file = try? openBeneath([name], from: directory.descriptor.raw, flags: O_PATH)
        else { return arrival.attributes }
        return AttributeList(of: file.raw).lacking(of: arrival.attributes)
    }

    private mutating func directory(_ id: Identifier) throws -> Directory? {
        let id = id == .none ? root ?? id : id
        if let known = directories[id] { return known }
        if directories.count >= Installer.openMax { directories = [:] }
        guard let item = try t.item(id: id), item.deleted == nil, item.kind == .directory,
            let path = try t.path(of: item.key),
            let descriptor = try? openBeneath(
                path, from: recorder.tree, flags: O_PATH | O_DIRECTORY)
        else { return nil }
        let directory = try Directory(item.key, descriptor)
        directories[id] = directory
        return directory
    }
}
