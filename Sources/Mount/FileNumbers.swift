import CFuse
import Glibc
import Synchronization
import SystemCalls

/// The inode numbers that programs see where they are not the tree's own.
///
/// A program that looks at a document and then opens it (cp(1), install(1)) compares the numbers,
/// and gives up where they differ. A document that is open elsewhere saves when it is opened, and
/// a safe save puts another file in its place: so that file goes on under the old one's number.
/// Nobody has to find it again after the next mount.
final class FileNumbers: Sendable {
    private struct Shown {
        var number: UInt64
        /// The file whose number it was: while it is kept, no other file gets that number.
        var file: SharedDescriptor
        /// The kernel's number, to make it forget.
        var node: UInt64
        var order: UInt64
    }

    private struct State {
        var shown: [UInt64: Shown] = [:]
        var order: UInt64 = 0
        /// Nodes that programs wait to open, and how many do.
        var awaited: [UInt64: Int] = [:]
    }

    private let state = Mutex(State())
    private let isUsed = Atomic(false)
    /// Each costs a descriptor, and the room that the replaced file takes.
    private static let countMax = 256

    // MARK: What is shown

    func shown(_ inode: UInt64) -> UInt64 {
        guard isUsed.load(ordering: .acquiring) else { return inode }
        return state.withLock { $0.shown[inode]?.number ?? inode }
    }

    func show(_ status: inout stat) { status.st_ino = ino_t(shown(UInt64(status.st_ino))) }

    /// A file has taken another's place, and is shown as that was. Gives back the node of one that
    /// is shown as what it is from now on, so that the kernel can be told.
    func replace(_ old: Node, _ file: SharedDescriptor, with new: Node) -> UInt64? {
        state.withLock { state in
            isUsed.store(true, ordering: .releasing)
            state.order += 1
            let former = state.shown.removeValue(forKey: old.inode)
            state.shown[new.inode] = Shown(
                number: former?.number ?? old.inode, file: former?.file ?? file, node: new.id,
                order: state.order)
            guard state.shown.count > FileNumbers.countMax,
                let oldest = state.shown.min(by: { $0.value.order < $1.value.order })
            else { return nil }
            state.shown[oldest.key] = nil
            return oldest.value.node
        }
    }

    /// A file has lost its last name.
    func forget(_ inode: UInt64) {
        guard isUsed.load(ordering: .acquiring) else { return }
        let gone = state.withLock { $0.shown.removeValue(forKey: inode) }
        withExtendedLifetime(gone) {}
    }

    // MARK: Who waits

    func begin(awaiting node: Node) { state.withLock { $0.awaited[node.id, default: 0] += 1 } }

    func end(awaiting node: Node) {
        state.withLock { state in
            let count = (state.awaited[node.id] ?? 1) - 1
            state.awaited[node.id] = count > 0 ? count : nil
        }
    }

    func isAwaited(_ node: Node) -> Bool { state.withLock { $0.awaited[node.id] != nil } }
}
