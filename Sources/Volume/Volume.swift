import Logging
import Model
import SystemCalls

/// One device's volume: a working tree of plain files, and the history of every document in it.
///
/// Programs' requests arrive as verbs (`Volume+Names`, `Volume+Writing`) on the threads that serve them: each does its
/// system calls in the tree, moves aside what would be lost, notes an event and returns. The recorder, one thread in the
/// background, turns events into documents and versions. Readers (`Volume+History`) wait until it has caught up.
package final class Volume: Sendable {
    /// The working tree's root, opened with O_PATH.
    package let root: Int32

    package init(root: Int32) { self.root = root }
}
