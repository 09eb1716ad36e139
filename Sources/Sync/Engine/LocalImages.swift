import Glibc
import Journal
import Model
import Reconcile
import SystemCalls
import Volume

/// The images of the items of this device, as the planner compares them with the hub's.
struct LocalImages {
    let journal: Transaction
    let keys: VolumeKeys
    /// A descriptor of the working tree's root.
    let tree: Int32

    /// Returns nil for items that never leave this device.
    func image(_ item: LocalItem) throws(VolumeError) -> Image? {
        guard let kind = ItemKind(item.kind), let name = item.name.portable else { return nil }
        var image = Image(
            kind: kind, parent: item.parentKey == Item.root ? .root : item.parent, name: name,
            isAlive: item.isAlive)
        // A directory that was once a package still has its versions in the journal.
        if kind.isDocument {
            image.revision = item.current
            image.content = item.content.map(keys.name(of:))
        }
        guard item.isAlive else { return image }
        if item.hasConflicts, kind.isDocument {
            image.conflicts = try journal.conflicts(of: item.key)
        }
        if kind == .symlink {
            image.target = try target(of: item)
            return image
        }
        if item.mode != 0 {
            let mode = SharedMode.bits(of: item.mode)
            image.attributes["mode"] = [UInt8(mode >> 8), UInt8(mode & 0xFF)]
        }
        if kind == .file { image.modified = item.versionModified }
        if kind == .file, item.changed != 0, let saved = item.versionModified,
            saved != item.modified
        {
            image.attributes["modified"] = bigEndian(item.modified)
        }
        let list = AttributeList(encoded: item.attributes)
        image.attributes[OwnerName.attribute] = list?.owner?.bytes
        for attribute in list?.attributes ?? [] {
            guard let name = String(validating: attribute.name, as: UTF8.self) else { continue }
            image.attributes["x:" + name] = attribute.value
        }
        return image
    }

    private func target(of item: LocalItem) throws(VolumeError) -> String? {
        guard let path = try journal.path(of: item.key), let name = path.last else { return nil }
        return readTarget(of: name, in: Array(path.dropLast()), tree: tree)
    }
}
