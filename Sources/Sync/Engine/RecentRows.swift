import Model
import Reconcile

/// What a `JournalTable` has read since the journal last changed. The planner asks for the same
/// items many times, and for the directory of each.
final class RecentRows {
    private var changes = -1
    private var mirrors: [Identifier: Mirror?] = [:]
    private var images: [Identifier: Image?] = [:]
    private var revisions: [Identifier: Revision?] = [:]

    /// - Parameter changes: `Reader.totalChanges` now. Nothing is valid that was read before.
    func mirror(
        _ id: Identifier, at changes: Int, or read: () throws(VolumeError) -> Mirror?
    ) throws(VolumeError) -> Mirror? {
        forget(before: changes)
        return try RecentRows.value(of: id, in: &mirrors, or: read)
    }

    func image(
        _ id: Identifier, at changes: Int, or read: () throws(VolumeError) -> Image?
    ) throws(VolumeError) -> Image? {
        forget(before: changes)
        return try RecentRows.value(of: id, in: &images, or: read)
    }

    func revision(
        _ id: Identifier, at changes: Int, or read: () throws(VolumeError) -> Revision?
    ) throws(VolumeError) -> Revision? {
        forget(before: changes)
        return try RecentRows.value(of: id, in: &revisions, or: read)
    }

    /// The mirror of one item was written and nothing else, so the rest stays valid.
    func wroteMirror(of id: Identifier, from old: Int, to new: Int) {
        forget(before: old)
        mirrors[id] = nil
        changes = new
    }

    private func forget(before now: Int) {
        guard changes != now else { return }
        changes = now
        mirrors.removeAll(keepingCapacity: true)
        images.removeAll(keepingCapacity: true)
        revisions.removeAll(keepingCapacity: true)
    }

    private static func value<Value>(
        of id: Identifier, in known: inout [Identifier: Value?],
        or read: () throws(VolumeError) -> Value?
    ) throws(VolumeError) -> Value? {
        if let value = known[id] { return value }
        let value = try read()
        known.updateValue(value, forKey: id)
        return value
    }
}
