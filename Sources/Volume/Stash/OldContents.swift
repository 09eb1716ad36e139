import Glibc
import Model
import SystemCalls

/// The old contents of files that programs overwrite, and that may give way to them.
///
/// A document may be larger than what is free on the disk. If nothing else can give way, and its
/// old contents are large ones that would give way to another program, they give way to the one
/// that overwrites or empties the document. Contents that must stay, like a labelled version or a
/// conflict, are not overwritten: the program gets ENOSPC.
///
/// The journal forgets the versions that need the old contents first, in a transaction that is on
/// the disk when it returns, and only then are they overwritten. After a crash in between, the
/// document shows what it held before, and that is recorded again as a new version.
package final class OldContents: Sendable {
    private let stash: Stash
    private let events: EventQueue
    private let unrecorded: UnrecordedContents
    private let reserve: Reserve
    private let room: Room
    private let recorder: Recorder

    /// In bytes. Smaller contents stay: the program gets ENOSPC, and a person who removes anything
    /// makes room for them. They are not lost to a save that fails a moment later.
    private static let sizeMin: Int64 = 8 << 20

    init(
        stash: Stash, events: EventQueue, unrecorded: UnrecordedContents, reserve: Reserve,
        room: Room, recorder: Recorder
    ) {
        self.stash = stash
        self.events = events
        self.unrecorded = unrecorded
        self.reserve = reserve
        self.room = room
        self.recorder = recorder
    }

    /// Runs `attempt`, which moves old contents aside, with the patience `.room`, and if there is
    /// no room for them with `.loss`.
    package func movingAside<Result>(
        for bytes: Int64, _ attempt: (Patience) throws(Errno) -> Result
    ) throws(Errno) -> Result {
        do throws(Errno) {
            return try room.withRoom(for: bytes) { () throws(Errno) in try attempt(.room) }
        } catch {
            guard error == .noSpace, mayGiveUp else { throw error }
            return try attempt(.loss)
        }
    }

    /// Runs `body`, which saves old blocks in `preImages` and overwrites them, as `withRoom` does.
    /// If there is no room for those blocks, they are given up.
    package func overwriting<Result>(
        _ preImages: PreImageLog?, offset: Int64, length: Int64,
        _ body: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        do throws(Errno) { return try room.withRoom(for: length, body) } catch {
            // Otherwise there is no room for what the program writes.
            guard error == .noSpace, let preImages,
                preImages.mustSave(offset: offset, length: length), giveUp(preImages)
            else { throw error }
            return try room.withRoom(for: length, body)
        }
    }

    /// When the volume is about to close, space is refused without a search.
    private var mayGiveUp: Bool {
        recorder.settings.freeShare > 0 && !recorder.isAboutToClose
    }

    /// Gives up the old contents of a file that is being overwritten, some of which are in
    /// `preImages`. Returns false if they must stay. Waits for the recorder.
    func giveUp(_ preImages: PreImageLog) -> Bool {
        guard let log = Stash.parse(preImages.name),
            giveUp(contentsOf: log.inode, log, bytes: preImages.size)
        else { return false }
        preImages.giveUp()
        return true
    }

    func giveUp(contentsOf inode: UInt64, _ log: Stash.Entry?, bytes: Int64) -> Bool {
        guard mayGiveUp, bytes >= OldContents.sizeMin else { return false }
        let isGone = try? recorder.carryOut { (recorder) throws(VolumeError) in
            try recorder.retention.space.giveUp(contentsOf: inode, log, bytes: bytes)
        }
        return isGone ?? false
    }

    /// Prepares that a file is changed for whose old contents there is no room. If the change
    /// destroys them (`whole`), they are given up; otherwise old blocks are saved when they are
    /// overwritten.
    func secure(
        _ writing: inout Writing, file: Int32, _ snapshot: FileSnapshot, whole: Bool,
        isUnseen: Bool, by actor: Actor
    ) throws(Errno) {
        guard !whole else {
            // Contents that nobody has seen become a conflict version.
            guard !isUnseen, giveUp(contentsOf: snapshot.inode, nil, bytes: snapshot.size) else {
                throw .noSpace
            }
            writing.isSecured = true
            return
        }
        let name = stash.newName(.preImages, snapshot, spot: nil, actor: actor)
        let log = try reserve.using { () throws(Errno) in
            try PreImageLog.make(of: file, snapshot, named: name, in: stash)
        }
        writing.preImages = log
        writing.isSecured = true
        events.append(.secured(inode: snapshot.inode, stash: name, by: actor))
        if !unrecorded.contains(snapshot) {
            log.syncEach()
            // The log file's size is the only record of the old size.
            try stash.sync(name)
        }
    }
}
