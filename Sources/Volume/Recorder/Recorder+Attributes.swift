import CLinux
import Glibc
import Journal
import Model
import SystemCalls

// Permission bits and extended attributes, as the tree has them.
extension Recorder {
    /// The attributes of a file that are synchronized; by any descriptor, O_PATH too.
    func attributes(of file: Int32) -> AttributeList {
        var names = [CChar](repeating: 0, count: 1024)
        var length = cl_listxattr_fd(file, &names, names.count)
        if length == -Int(ERANGE) {
            names = [CChar](repeating: 0, count: 1 << 16)
            length = cl_listxattr_fd(file, &names, names.count)
        }
        guard length > 0 else { return AttributeList() }
        let all = names[..<length].split(separator: 0).map { $0.map { UInt8(bitPattern: $0) } }
        return AttributeList(
            all.filter(AttributeList.isSynchronized).compactMap { name in
                value(of: name, file).map { AttributeList.Attribute(name: name, value: $0) }
            })
    }

    private func value(of name: [UInt8], _ file: Int32) -> [UInt8]? {
        Name(bytes: name).withCString { try? extendedAttribute($0, of: file) }
    }

    /// Handles a change of an inode's mode, attributes or times.
    func attributesChanged(_ inode: UInt64, _ t: Transaction) throws {
        for item in try t.items(inode: inode) where item.hasAttributes || item.kind == .symlink {
            guard let path = try t.path(of: item.key),
                let file = try? openBeneath(path, from: tree, flags: O_PATH),
                case let now = status(file.raw), now.inode == inode
            else { continue }
            var changed = item
            changed.show(link: now)
            guard item.hasAttributes else {
                if changed != item { try t.update(changed) }
                continue
            }
            note(attributes: attributes(of: file.raw), now, on: &changed)
            try protectCurrent(of: item, file.raw, now, t)
            if item.kind == .file, item.changed != 0, state.pending[item.key] == nil {
                let isSame = item.size == UInt64(now.size) && item.modified == now.modified
                // Either times were set or the file is being written; its contents will be
                // compared.
                changed.changed = isSame ? max(1, now.changed) : 0
            }
            if changed != item { try t.update(changed) }
            // A recording that is running has read the old attributes.
            if changed.changed == 0 || state.pending[item.key] != nil { touch(item.key) }
        }
    }

    /// Updates the protection of the current version, if the file has no unrecorded changes.
    private func protectCurrent(of item: Item, _ file: Int32, _ now: FileSnapshot, _ t: Transaction)
        throws
    {
        guard item.changed != 0, state.pending[item.key] == nil, let current = item.current,
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
    func refresh(_ item: Item, _ t: Transaction) throws {
        guard !isReplaying, item.changed != 0, state.pending[item.key] == nil,
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

    func note(attributes: AttributeList, _ snapshot: FileSnapshot, on item: inout Item) {
        item.mode = snapshot.permissions
        // An attribute that the file system did not accept was not removed by a program.
        let missing = AttributeList(encoded: item.attributes)?.lacking ?? AttributeList()
        item.attributes = attributes.lacking(of: missing).encoded
    }

    /// Tries again to set attributes that the file system did not accept.
    func retryAttributes() throws {
        let keys = try journal.read { reader in
            var keys: [Int64] = []
            try reader.forEachItem { item in
                guard item.deleted == nil, item.attributes != nil,
                    AttributeList(encoded: item.attributes)?.lacking.isEmpty == false
                else { return }
                keys.append(item.key)
            }
            return keys
        }
        guard !keys.isEmpty else { return }
        try transact { t in
            for key in keys { try retryAttributes(of: key, t) }
        }
    }

    private func retryAttributes(of key: Int64, _ t: Transaction) throws {
        guard let item = try t.item(key), item.deleted == nil,
            let list = AttributeList(encoded: item.attributes), let path = try t.path(of: key),
            let file = try? openBeneath(path, from: tree, flags: O_PATH),
            status(file.raw).inode == item.inode
        else { return }
        var isSet = false
        for attribute in list.lacking.attributes {
            let result = Name(bytes: attribute.name).withCString {
                cl_setxattr_fd(file.raw, $0, attribute.value, attribute.value.count, 0)
            }
            if result == 0 { isSet = true }
        }
        if isSet { try attributesChanged(item.inode, t) }
    }
}

extension Item {
    /// Symlinks and special files have no attributes that are synchronized.
    var hasAttributes: Bool { kind == .file || kind == .directory || kind == .package }

    /// Notes the size and time of a symlink, which show whether its target has changed.
    mutating func show(link snapshot: FileSnapshot) {
        guard kind == .symlink, snapshot.isSymlink else { return }
        size = UInt64(max(0, snapshot.size))
        modified = snapshot.modified
    }
}
