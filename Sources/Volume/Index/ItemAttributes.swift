import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Notes permission bits and extended attributes, as the tree has them. Only the recorder's thread
/// uses it.
struct ItemAttributes {
    let writer: JournalWriter
    let tree: Int32
    let owners: TreeOwners

    /// Handles a change of an inode's mode, attributes or times.
    ///
    /// - Parameter protection: How a directory is protected since the event.
    func changed(_ inode: UInt64, _ protection: Protection?, _ t: Transaction) throws {
        for item in try t.items(inode: inode) where item.hasAttributes || item.kind == .symlink {
            if let protection, item.kind == .directory {
                try t.setProtection(
                    ofDirectory: item.key, protection, since: writer.eventTime,
                    former: item.mode)
            }
            guard let path = try t.path(of: item.key),
                let file = try? openBeneath(path, from: tree, flags: O_PATH),
                case let now = FileSnapshot(of: file.raw), now.inode == inode
            else {
                // A later event has moved it already, or a directory above it.
                writer.state.unreadAttributes.insert(inode)
                continue
            }
            var changed = item
            changed.show(link: now)
            guard item.hasAttributes else {
                if changed != item { try t.update(changed) }
                continue
            }
            changed.note(AttributeList(of: file.raw), now)
            owners.note(file.raw, at: path, on: &changed)
            try owners.noteContents(of: changed, before: item, at: path, t)
            try protectCurrent(of: item, file.raw, now, t)
            if item.kind == .file, item.changed != 0, writer.state.pending[item.key] == nil {
                let isSame = item.size == UInt64(now.size) && item.modified == now.modified
                // Either times were set or the file is being written; its contents will be
                // compared.
                changed.changed = isSame ? max(1, now.changed) : 0
            }
            if changed != item { try t.update(changed) }
            // A recording that is running has read the old attributes.
            if changed.changed == 0 || writer.state.pending[item.key] != nil {
                writer.state.pending.touch(item.key)
            }
        }
    }

    /// Handles changes of inodes that were not at their paths then, after something was moved.
    func readAgain(_ t: Transaction) throws {
        let inodes = writer.state.unreadAttributes
        guard !inodes.isEmpty else { return }
        writer.state.unreadAttributes = []
        for inode in inodes { try changed(inode, nil, t) }
    }

    /// Updates the protection of the current version, if the file has no unrecorded changes.
    private func protectCurrent(of item: Item, _ file: Int32, _ now: FileSnapshot, _ t: Transaction)
        throws
    {
        guard item.changed != 0, writer.state.pending[item.key] == nil, let current = item.current,
            item.kind == .package
                || item.kind == .file && item.size == UInt64(now.size)
                    && item.modified == now.modified
        else { return }
        let protection = Protection(of: file)
        if try t.version(id: current)?.version.protection != protection {
            try t.setProtection(of: current, protection)
        }
    }

    /// Notes the change time after a rename, which changes nothing else. After a restart the file
    /// may have been changed in the meantime, so nothing is assumed then.
    func refresh(_ item: Item, _ t: Transaction, isReplaying: Bool) throws {
        guard !isReplaying, item.changed != 0, writer.state.pending[item.key] == nil,
            let path = try t.path(of: item.key),
            let now = try? openBeneath(path, from: tree, flags: O_PATH).status(),
            case let snapshot = FileSnapshot(now), snapshot.inode == item.inode,
            snapshot.changed != item.changed,
            snapshot.size == Int64(item.size), snapshot.modified == item.modified
        else { return }
        var item = item
        item.changed = snapshot.changed
        try t.update(item)
    }

    /// Tries again to set attributes that the file system did not accept.
    func retry() throws {
        let keys = try writer.journal.read { reader in
            var keys: [Int64] = []
            try reader.forEachItem { item in
                guard item.deleted == nil, item.attributes != nil,
                    AttributeList(encoded: item.attributes)?.lacking.attributes.isEmpty == false
                else { return }
                keys.append(item.key)
            }
            return keys
        }
        guard !keys.isEmpty else { return }
        try writer.transact { t in
            for key in keys { try retry(of: key, t) }
        }
    }

    private func retry(of key: Int64, _ t: Transaction) throws {
        guard let item = try t.item(key), item.deleted == nil,
            let list = AttributeList(encoded: item.attributes), let path = try t.path(of: key),
            let file = try? openBeneath(path, from: tree, flags: O_PATH),
            FileSnapshot(of: file.raw).inode == item.inode
        else { return }
        if list.lacking.set(on: file.raw) { try changed(item.inode, nil, t) }
    }
}

extension Item {
    /// Symlinks and special files have no attributes that are synchronized.
    var hasAttributes: Bool { kind == .file || kind == .directory || kind == .package }

    /// The owner that other devices are told.
    var owner: OwnerName? { AttributeList(encoded: attributes)?.owner }

    /// Notes the attributes of its file.
    mutating func note(_ list: AttributeList, _ snapshot: FileSnapshot) {
        mode = snapshot.permissions
        // An attribute that the file system did not accept was not removed by a program. The owner
        // is noted separately.
        let missing = AttributeList(encoded: attributes)?.lacking ?? AttributeList()
        attributes = list.lacking(of: missing).encoded
    }

    /// Notes the size and time of a symlink, which show whether its target has changed.
    mutating func show(link snapshot: FileSnapshot) {
        guard kind == .symlink, snapshot.isSymlink else { return }
        size = UInt64(max(0, snapshot.size))
        modified = snapshot.modified
    }
}
