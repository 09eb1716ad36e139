import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// An open file.
final class Handle: Sendable {
    let node: Node
    let state: OpenState
    /// The file, opened with O_PATH.
    let file: SharedDescriptor
    /// The flags of open(2).
    let flags: Int32
    let caller: Caller
    /// Whether the volume counts it as a writer.
    let writes: Bool
    /// How much its process has seen of contents that it does not overwrite.
    let sight: SeenVersions.Sight
    /// Whether it reads and writes through the kernel (passthrough).
    let isShared: Bool
    /// Whether this open created the file.
    let isCreator: Bool
    /// The pre-image log in which old blocks are saved before each write.
    let preImages: PreImageLog?
    /// Its implicit lease.
    let lease: UInt64?
    /// The claim for which presenters have relinquished the document, until it is closed or its
    /// time is over.
    let claim: ClaimID?
    /// The document that only this device may edit while it is open.
    let document: Identifier?
    /// The file's change stamp when it was opened for writing; nil if no claim or presenter
    /// existed.
    let before: ChangeStamp?
    /// Set if the document was a placeholder when it was opened; it tells which bytes are present.
    let contents: PlaceholderFile?
    /// The failures of `state.unwrittenPages` that its program has been told.
    private let toldFailures: Atomic<UInt64>
    /// A descriptor for reading and writing; -1 until it is first needed, and after the release.
    private let real: Mutex<Int32>

    init(
        node: Node, state: OpenState, file: SharedDescriptor, flags: Int32, caller: Caller,
        writes: Bool, sight: SeenVersions.Sight, isShared: Bool, isCreator: Bool,
        preImages: PreImageLog?,
        lease: UInt64?, claim: ClaimID?, document: Identifier?, before: ChangeStamp?,
        contents: PlaceholderFile?,
        real: Int32
    ) {
        self.node = node
        self.state = state
        self.file = file
        self.flags = flags
        self.caller = caller
        self.writes = writes
        self.sight = sight
        self.isShared = isShared
        self.isCreator = isCreator
        self.preImages = preImages
        self.lease = lease
        self.claim = claim
        self.document = document
        self.before = before
        self.contents = contents
        toldFailures = Atomic(state.unwrittenPages.withLock { $0.count })
        self.real = Mutex(real)
    }

    /// A failure to write what a mapping has changed, of which its program has not been told.
    func untoldFailure() -> Errno? {
        state.unwrittenPages.withLock { pages in
            let told = toldFailures.exchange(pages.count, ordering: .relaxed)
            return pages.failure(after: told)
        }
    }

    deinit { close() }

    var isReader: Bool { flags & O_ACCMODE != O_WRONLY }
    var isSharedWriter: Bool { isShared && flags & O_ACCMODE == O_RDWR }

    /// The descriptor for the program's reads and writes.
    func descriptor() throws(Errno) -> Int32 {
        try real.withLock { (real) throws(Errno) in
            if real < 0 { real = try Handle.reopen(file, flags, isGuarded: preImages != nil) }
            return real
        }
    }

    /// Closes the descriptor. This must happen before the volume checks whether a program still
    /// writes.
    func close() {
        real.withLock { real in
            if real >= 0 { _ = cl_close(real) }
            real = -1
        }
    }

    /// Opens the file with the program's flags. With `isGuarded` also for reading, to save old
    /// blocks.
    static func reopen(_ file: SharedDescriptor, _ flags: Int32, isGuarded: Bool) throws(Errno)
        -> Int32
    {
        var ours = flags & ~Flag.notOurs
        if isGuarded { ours = ours & ~O_ACCMODE | O_RDWR }
        // An append-only file can be opened for writing only with O_APPEND.
        let appending = flags & O_APPEND
        var result: Int32 = -EPERM
        for how in [ours, ours | appending, ours & ~Flag.noAccessTime | appending]
        where result == -EPERM {
            result = cl_reopen(file.raw, how)
        }
        return try check(result)
    }
}
