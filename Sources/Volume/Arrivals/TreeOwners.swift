import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Notes in the rows of items to whom their files belong, as other devices are told it
/// (`Accounts.shared`).
struct TreeOwners {
    let tree: Int32

    /// - Parameters:
    ///   - uid: The file's owner; nil if it cannot be examined.
    ///   - directory: The owner of the directory that contains it.
    func note(_ uid: uid_t?, in directory: @autoclosure () -> uid_t?, on item: inout Item) {
        guard let accounts = Accounts.ofThisMachine, let uid, item.key != Item.root,
            item.hasAttributes, let root = owner(of: tree)
        else { return }
        var list = AttributeList(encoded: item.attributes) ?? AttributeList()
        // The owner was never set while this volume was mounted by another user than root, so the
        // file's owner says nothing.
        guard list.owner == nil || list.isOwnerOnFile else { return }
        let now = accounts.shared(uid, root: root, directory: directory, known: list.owner)
        guard now != list.owner else { return }
        list.owner = now
        item.attributes = list.encoded
    }

    func note(_ file: Int32, at path: [Name], on item: inout Item) {
        note(owner(of: file), in: owner(ofDirectory: path.dropLast()), on: &item)
    }

    /// Notes the owner of a file of `directory`.
    func note(_ status: stat, in directory: Int32, on item: inout Item) {
        note(status.st_uid, in: owner(of: directory), on: &item)
    }

    /// Notes the owner of a new or moved item.
    func note(_ item: inout Item, _ t: Reader) throws {
        guard Accounts.ofThisMachine != nil, item.hasAttributes,
            let path = try t.path(of: item.parent),
            let directory = try? openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY),
            let status = try? entryStatus(item.name, in: directory.raw),
            // Otherwise a later event moved it, which will be handled.
            UInt64(status.st_ino) == item.inode
        else { return }
        note(status, in: directory.raw, on: &item)
    }

    /// Notes the owners of everything in a directory whose owner a program has changed. Until then
    /// they may have been what the other devices expect.
    func noteContents(of directory: Item, before: Item, at path: [Name], _ t: Transaction) throws {
        guard directory.kind == .directory, directory.owner != before.owner,
            // If the hub changes the directory's owner, it also sends the owners of its contents.
            try t.hub.mirror(directory.id)?.state != .underway,
            let file = try? openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
        else { return }
        for child in try t.children(of: directory.key) where child.hasAttributes {
            guard let status = try? entryStatus(child.name, in: file.raw),
                UInt64(status.st_ino) == child.inode
            else { continue }
            var changed = child
            note(status, in: file.raw, on: &changed)
            if changed != child { try t.update(changed) }
        }
    }

    func owner(ofDirectory path: some Collection<Name>) -> uid_t? {
        guard Accounts.ofThisMachine != nil,
            let directory = try? openBeneath(Array(path), from: tree, flags: O_PATH | O_DIRECTORY)
        else { return nil }
        return owner(of: directory.raw)
    }

    private func owner(of file: Int32) -> uid_t? {
        var status = stat()
        return cl_fstat(file, &status) == 0 ? status.st_uid : nil
    }
}
