import CFuse
import Glibc
import Synchronization
import SystemCalls

/// Inode numbers that programs are shown instead of the tree's own.
///
/// A program that calls stat(2) and then open(2) (cp(1), install(1)) compares the inode numbers and
/// gives up if they differ. But a presenter may save the document because it is opened, and a safe
/// save replaces the file. So the new file is shown under the number of the old one. Nothing
/// depends on this after the next mount.
final class FileNumbers: Sendable {
    private struct Shown {
        var number: UInt64
        /// The file with that number. While it is kept open, no other file can get the number.
        var file: SharedDescriptor
        /// The node's number, to invalidate it in the kernel.
        var node: UInt64
        var order: UInt64
    }

    private struct State {
        var shown: [UInt64: Shown] = [:]
        var order: UInt64 = 0
    }

    private let state = Mutex(State())
    private let isUsed = Atomic(false)
    /// Each entry costs a descriptor and the disk space of the replaced file.
    private static let countMax = 256

    func shown(_ inode: UInt64) -> UInt64 {
        guard isUsed.load(ordering: .acquiring) else { return inode }
        return state.withLock { $0.shown[inode]?.number ?? inode }
    }

    func show(_ status: inout stat) { status.st_ino = ino_t(shown(UInt64(status.st_ino))) }

    /// A file has replaced another one and is shown under its number. Returns the node of an older
    /// entry that was dropped, so that the kernel can be notified.
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

    /// Called when a file has lost its last name.
    func forget(_ inode: UInt64) {
        guard isUsed.load(ordering: .acquiring) else { return }
        let gone = state.withLock { $0.shown.removeValue(forKey: inode) }
        withExtendedLifetime(gone) {}
    }
}
