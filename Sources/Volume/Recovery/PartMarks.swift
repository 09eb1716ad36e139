import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Writes the marks of the parts of a store. They are written anew when the store is opened and
/// closed, and before packs are removed. So a copy of a part that was made before that moment is
/// known as older when it is put back.
struct PartMarks {
    let tree: Int32
    let journal: Journal
    let packs: PackStore

    /// Writes the next mark to all parts; does nothing if they have none yet.
    func advance() throws(VolumeError) {
        let state = try journal.read { try Parts.State($0) }
        guard let mark = state.mark else { return }
        try advance(state, after: [mark])
    }

    /// Marks the journal first, so that no other part is ever ahead of it.
    func advance(_ state: Parts.State, after known: [StoreStamp]) throws(VolumeError) {
        let last = known.map(\.number).max() ?? 0
        let id = state.mark?.store ?? known.first?.store ?? .random()
        let mark = StoreStamp(store: id, number: state.isJoining ? max(last, 1) : last + 1)
        let foreign = state.foreignPack
        do throws(VolumeError) {
            try journal.write { t in
                try t.set("parts", to: mark.text)
                try t.set("parts.joining", to: "1")
                if foreign > 0 { try t.set(Parts.foreignPack, to: "\(foreign)") }
            }
            try packs.setMark(mark)
            let isMarked = markTree(mark)
            try journal.write { t in
                try t.set("parts.joining", to: nil)
                try t.set("parts.tree", to: isMarked ? "1" : nil)
            }
        } catch {
            // A full disk prevents neither mounting nor the removal of packs; the marks are
            // written the next time.
            guard error.code == .full, foreign == 0 else { throw error }
        }
    }

    private func markTree(_ mark: StoreStamp) -> Bool {
        let bytes = Array(mark.text.utf8)
        guard cl_setxattr_fd(tree, Parts.attribute, bytes, bytes.count, 0) == 0,
            let tree = try? Descriptor(opening: ".", in: tree, flags: O_RDONLY | O_DIRECTORY)
        else { return false }
        return (try? tree.sync(dataOnly: false)) != nil
    }
}
