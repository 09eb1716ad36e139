import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// One item of a bulk install.
package struct Installation: Sendable {
    package var arrival: Arrival
    /// The id of the directory: of an item that is here or comes earlier in the list; the root's is
    /// that of the journal's root, or `Identifier.none`.
    package var parent: Identifier
    package var name: Name

    package init(_ arrival: Arrival, in parent: Identifier, name: Name) {
        self.arrival = arrival
        self.parent = parent
        self.name = name
    }
}

package struct InstallationReport: Sendable {
    /// By index: something has that name, or the directory is not there.
    package var taken: [Int] = []
    /// What is to be told to the mount: `MountSession.changed(_:)`.
    package var spots: [Spot] = []
}

extension Volume {
    package typealias Installed = @Sendable (Installation, Int64, Transaction) throws -> Void

    /// Makes directories, symlinks and dataless files in the tree and in the journal, without the
    /// mount: for the first time that a device joins. Parents come before what is in them; never
    /// over something. `also` is called for each in the transaction, with its key. Blocks.
    ///
    /// - Throws: `.full`, … when a part of them has not been made; those that were are in the
    ///   journal, or found by the next scan.
    package func install(
        _ items: [Installation], also: @escaping Installed = { _, _, _ in }
    ) throws(VolumeError) -> InstallationReport {
        var report = InstallationReport()
        var start = 0
        while start < items.count {
            let part = start..<min(items.count, start + Installer.countMax)
            let found = try recorder.perform { recorder, t in
                var installer = Installer(recorder, t)
                for index in part { try installer.install(items[index], index, also) }
                return installer.report
            }
            report.taken += found.taken
            report.spots += found.spots
            start = part.upperBound
        }
        return report
    }
}

/// A few thousand items in one transaction.
private struct Installer {
    static let countMax = 4096
    /// Directories that are open at a time.
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
        /// What is new in it gets this.
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

    mutating func install(_ item: Installation, _ index: Int, _ also: Volume.Installed) throws {
        let arrival = item.arrival
        guard item.name.isSafe, arrival.kind != .package, arrival.kind != .special,
            let directory = try directory(item.parent), try t.item(id: arrival.item) == nil
        else {
            report.taken.append(index)
            return
        }
        let incoming = recorder.incoming
        // The bytes of a file that has any are not here.
        var dataless = arrival
        dataless.isDataless = arrival.kind == .file
        let draft = Name(incoming.newName(arrival.mark))
        try Preparing(arrival: dataless, directory: incoming.directory).make(draft) {
            (_, _) throws(VolumeError) in
        }
        let made = try openBeneath([draft], from: incoming.directory, flags: O_PATH)
        try directory.local.give(to: made.raw)
        let result = draft.withCString { from in
            item.name.withCString { to in
                cl_renameat2(
                    incoming.directory, from, directory.descriptor.raw, to,
                    UInt32(RENAME_NOREPLACE))
            }
        }
        guard result == 0 else {
            incoming.remove(draft)
            guard result == -EEXIST else { throw Errno(-result) }
            report.taken.append(index)
            return
        }
        report.spots.append(Spot(directory: directory.inode, name: item.name))
        try note(item, dataless, in: directory, also)
    }

    private mutating func note(
        _ item: Installation, _ arrival: Arrival, in directory: Directory, _ also: Volume.Installed
    ) throws {
        let trace: Trace
        var file: Descriptor?
        if arrival.kind == .directory {
            let made = try openBeneath(
                [item.name], from: directory.descriptor.raw, flags: O_PATH | O_DIRECTORY)
            if Volume.isPackage(name: item.name) {
                try check(cl_setxattr_fd(made.raw, "user.concord.package", "0", 1, 0))
            }
            trace = Trace(try made.status())
            file = consume made
        } else {
            trace = Trace(try entryStatus(item.name, in: directory.descriptor.raw))
        }
        var row = Item(
            id: arrival.item, parent: directory.key, name: item.name, kind: arrival.kind,
            inode: trace.inode, size: UInt64(max(0, trace.size)), modified: trace.modified,
            changed: max(1, trace.changed))
        if row.hasAttributes {
            row.mode = trace.permissions
            row.attributes = attributes(of: arrival, at: item.name, in: directory).encoded
        }
        if arrival.kind == .file, var version = arrival.version {
            row.current = version.id
            row.latest = 1
            row.key = try t.insert(row)
            (version.number, version.kind) = (1, .current)
            version.protection = try recorder.protection(of: row, t)
            try t.insert(version, of: row.key, manifest: arrival.manifest)
            if version.size > 0 { try t.setAbsent(row.key, version: version.id) }
        } else {
            row.key = try t.insert(row)
        }
        if let file {
            recorder.memory.locations[trace.inode] = .directory(row.key)
            directories[arrival.item] = try Directory(row.key, file)
        }
        try also(item, row.key, t)
    }

    /// What its file lacks, the file system did not take.
    private func attributes(of arrival: Arrival, at name: Name, in directory: Directory)
        -> AttributeList
    {
        guard !arrival.attributes.isEmpty,
            let file = try? openBeneath([name], from: directory.descriptor.raw, flags: O_PATH)
        else { return arrival.attributes }
        return recorder.attributes(of: file.raw).lacking(of: arrival.attributes)
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
