import CLinux
import Coordination
import Glibc
import Synchronization
import SystemCalls
import Volume

/// One open of a file.
final class Handle: Sendable {
    let node: Node
    let state: OpenState
    /// The file, opened with O_PATH.
    let file: SharedDescriptor
    /// As open(2) was called.
    let flags: Int32
    let caller: Caller
    /// Counted as a writer by the volume.
    let writes: Bool
    /// What its process has seen of the contents that it does not overwrite.
    let sight: SeenVersions.Sight
    /// Reads and writes through the kernel.
    let isShared: Bool
    /// It made the file.
    let isCreator: Bool
    /// Old blocks are saved there before each write.
    let undo: Undo?
    /// Its turn among the plain programs.
    let seat: UInt64?
    /// Presenters let go for it until it is closed, or has had its time.
    let claim: ClaimID?
    /// What the file was when it was opened for writing, while anybody wants to hear of changes.
    let before: Mark?
    /// While its document was not here when it was opened: what tells which bytes are.
    let contents: AbsentFile?
    /// A descriptor for reading and writing, opened when first needed; -1 before, and after the
    /// release.
    private let real: Mutex<Int32>

    init(
        node: Node, state: OpenState, file: SharedDescriptor, flags: Int32, caller: Caller,
        writes: Bool, sight: SeenVersions.Sight, isShared: Bool, isCreator: Bool, undo: Undo?,
        seat: UInt64?, claim: ClaimID?, before: Mark?, contents: AbsentFile?, real: Int32
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
        self.undo = undo
        self.seat = seat
        self.claim = claim
        self.before = before
        self.contents = contents
        self.real = Mutex(real)
    }

    deinit { close() }

    var isReader: Bool { flags & O_ACCMODE != O_WRONLY }
    var isSharedWriter: Bool { isShared && flags & O_ACCMODE == O_RDWR }

    /// The descriptor that the program's calls are carried out on.
    func descriptor() throws(Errno) -> Int32 {
        try real.withLock { (real) throws(Errno) in
            if real < 0 { real = try Handle.reopen(file, flags, isGuarded: undo != nil) }
            return real
        }
    }

    /// Before the volume looks whether somebody still writes.
    func close() {
        real.withLock { real in
            if real >= 0 { _ = cl_close(real) }
            real = -1
        }
    }

    /// Opens what `file` refers to as a program did. Old blocks can only be saved by who can read
    /// them.
    static func reopen(_ file: SharedDescriptor, _ flags: Int32, isGuarded: Bool) throws(Errno)
        -> Int32
    {
        var ours = flags & ~Flag.notOurs
        if isGuarded { ours = ours & ~O_ACCMODE | O_RDWR }
        // What may only grow is opened in no other way than for appending.
        let appending = flags & O_APPEND
        var result: Int32 = -EPERM
        for how in [ours, ours | appending, ours & ~Flag.noAccessTime | appending]
        where result == -EPERM {
            result = cl_reopen(file.raw, how)
        }
        return try check(result)
    }
}
