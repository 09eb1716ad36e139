import CLinux
import Journal
import Logging
import Model

/// What was removed for want of space since the volume was mounted.
struct RemovedForSpace: Equatable {
    var versions = 0
    var contents = 0
    var bytes: Int64 = 0
    /// Bytes in the packs that the tree has too, so that nothing was lost.
    var duplicateBytes: Int64 = 0

    static func += (sum: inout RemovedForSpace, more: RemovedForSpace) {
        sum.versions += more.versions
        sum.contents += more.contents
        sum.bytes += more.bytes
        sum.duplicateBytes += more.duplicateBytes
    }

    var text: String {
        "The disk was short of space: \(versions) older versions and \(contents) replaced or "
            + "deleted contents (\(bytes >> 20) MiB) were removed since the volume was mounted, "
            + "oldest first."
    }
}

/// Makes room: when the disk is short of space, history is removed, oldest first, before a program
/// is refused space. Versions that are current, in conflict, labelled or not yet at the hub stay;
/// a current one gives way only to the program that overwrites it (`giveUp`).
/// Only the recorder's thread uses it.
final class SpaceMaker {
    private let writer: JournalWriter
    private let room: Room
    private let reserve: Reserve
    private let pauses: WorkPauses
    private let reports: RecorderReports
    private let log: Logger
    private let versions: VersionRemoval
    private let contents: StashRemoval
    private let duplicates: DuplicateRemoval
    private let freeable: FreeableSpace
    private var letGo = RemovedForSpace()
    /// Documents whose prior contents do not fit into the packs now, with their sizes in bytes.
    private var awaitingRoom: [Int64: Int64] = [:]
    /// Whether the packs may hold chunks of failed transactions, which the journal does not know.
    private var packsHoldWaste = true
    private var nextReport: Int64 = 0
    /// When the journal's log may be written into the database again, in monotonic nanoseconds.
    private var nextLogStart: Int64 = 0

    init(
        writer: JournalWriter, room: Room, reserve: Reserve, pauses: WorkPauses,
        reports: RecorderReports, log: Logger, versions: VersionRemoval, contents: StashRemoval,
        duplicates: DuplicateRemoval, freeable: FreeableSpace
    ) {
        self.writer = writer
        self.room = room
        self.reserve = reserve
        self.pauses = pauses
        self.reports = reports
        self.log = log
        self.versions = versions
        self.contents = contents
        self.duplicates = duplicates
        self.freeable = freeable
    }

    /// Makes room if it is time for that. Returns false if there is enough space or nothing can be
    /// removed. `processEvents` processes all events and returns whether none is left.
    func makeRoom(_ processEvents: () -> Bool) -> Bool {
        guard room.isDue, writer.state.scan == nil else { return false }
        let search = room.begin()
        awaitingRoom = awaitingRoom.filter { writer.state.pending[$0.key] != nil }
        let more = awaitingRoom.values.max() ?? 0
        guard room.shortage(for: more) > 0 else {
            room.end(search, .enough)
            return false
        }
        startLogAnew()
        // A pause that waits for space must not prevent making space.
        pauses.endPauseOfAll()
        // Contents that were replaced or deleted a moment ago may be removed, too: their events are
        // processed first.
        let areEventsProcessed = processEvents()
        contents.isHeldBack = false
        let before = letGo
        var isComplete = true
        do {
            try room.ignoreRequests(beyond: freeable.bytes)
            try letGo(areEventsProcessed, until: { self.room.shortage(for: more) })
        } catch {
            isComplete = false
            reports.tell("room", "Old versions cannot be removed to make room: \(error)")
        }
        let isFreed = letGo != before
        room.end(search, isFreed ? .freed : finding(isComplete && areEventsProcessed))
        guard isFreed else { return false }
        reports.untell("room")
        report(letGo)
        // Work that waited for space goes on at once.
        pauses.endAll()
        for key in awaitingRoom.keys { writer.state.pending[key]?.due = cl_clock_monotonic_ns() }
        awaitingRoom = [:]
        return true
    }

    /// What a search that removed nothing has found out. While events are not processed, nobody
    /// knows what they make removable.
    private func finding(_ isComplete: Bool) -> SpaceRequests.Finding {
        let state = writer.state
        guard isComplete, state.scan == nil, state.unresolved.isEmpty else { return .unclear }
        return contents.isHeldBack ? .held : .nothing
    }

    /// Removes versions first and then contents that are not recorded yet, until no space is
    /// missing. The disk is asked each time, because a removed file that a program has open still
    /// takes its space.
    private func letGo(_ areEventsProcessed: Bool, until shortage: () -> Int64) throws(VolumeError)
    {
        if packsHoldWaste {
            packsHoldWaste = false
            letGo += try versions.remove(VersionRemoval.Choice())
        }
        if case let left = shortage(), left > 0 { letGo += try duplicates.remove(left) }
        // If all older versions together would not make enough room for waiting contents, those
        // contents are removed instead.
        let allOrNothing = room.shortage() == 0
        while case let left = shortage(), left > 0,
            try removeOldVersions(left, allOrNothing: allOrNothing)
        {}
        while case let left = shortage(), left > 0, areEventsProcessed {
            // If no program waits, unrecorded contents are removed only if that is enough.
            if !room.isAwaited, try freeable.bytes() < left { break }
            let before = letGo
            try removeContents(ofAtLeast: left)
            if letGo == before { break }
        }
    }

    /// Writes the journal's log into the database, once a second at most, while the disk has space
    /// for that. The log then begins again in space that is allocated already, so removals can be
    /// noted in the journal.
    private func startLogAnew() {
        let now = cl_clock_monotonic_ns()
        guard now >= nextLogStart else { return }
        nextLogStart = now + Timestamp.span(seconds: 1)
        // The log's file is not truncated, because other programs could take its space.
        _ = try? writer.journal.restartLog()
        reserve.fillLog()
    }

    private func report(_ letGo: RemovedForSpace) {
        guard letGo.versions + letGo.contents > 0 else { return }
        let text = letGo.text
        reports.change { $0.letGo = text }
        let now = cl_clock_monotonic_ns()
        guard now >= nextReport else { return }
        nextReport = now + Timestamp.span(seconds: 60)
        log.warning("\(text)")
    }

    /// Removes the oldest versions until `bytes` are free. With `allOrNothing` it removes none
    /// unless that frees enough. Returns false if none may be removed. A pack that also holds other
    /// versions may have to stay; then the next call removes more.
    private func removeOldVersions(_ bytes: Int64, allOrNothing: Bool) throws(VolumeError) -> Bool {
        let choice = try versions.chooseVersions(bytes) { reader in
            var found: [VersionRemoval.Candidate] = []
            try reader.forEachItem { item in
                guard item.latest > 1 || item.deleted != nil else { return }
                try self.versions.forEachVersion(of: item, reader) { version, reason in
                    if reason == nil { found.append(version) }
                }
            }
            return found
        }
        guard choice.bytes > 0, choice.bytes >= bytes || !allOrNothing else { return false }
        letGo += try versions.remove(choice)
        return !choice.versions.isEmpty
    }

    private func removeContents(ofAtLeast bytes: Int64) throws(VolumeError) {
        do throws(VolumeError) {
            letGo += try contents.remove(bytes).gone
        } catch {
            guard error.code == .full else { throw error }
            let gone = try contents.removeUnlogged(bytes)
            letGo += gone
            letGo += try contents.remove(bytes - gone.bytes).gone
        }
    }

    /// Removes old contents that a program overwrites, because there is no room for them and they
    /// would give way to any other program. Returns false if they must stay.
    func giveUp(contentsOf inode: UInt64, _ log: Stash.Entry?, bytes: Int64) throws(VolumeError)
        -> Bool
    {
        startLogAnew()
        guard let gone = try contents.giveUp(contentsOf: inode, log, bytes: bytes) else {
            return false
        }
        letGo += gone
        report(letGo)
        return true
    }

    /// Whether a document's contents in the stash can be copied to the packs. If not, it waits for
    /// room.
    func fits(_ work: PendingDocument, _ key: Int64) -> Bool {
        let bytes = work.priorContents.reduce(0) { sum, prior in
            sum + (prior.entry.map { contents.size(ofStashed: $0) } ?? 0)
        }
        guard bytes > SpaceMaker.smallBytes, room.shortage(for: bytes) > 0 else {
            awaitingRoom[key] = nil
            return true
        }
        awaitingRoom[key] = bytes
        return false
    }

    /// A size that always fits.
    private static let smallBytes: Int64 = 1 << 20

    /// A transaction has failed whose chunks are in the packs already.
    func packsMayHoldWaste() { packsHoldWaste = true }

    // MARK: Requests of people

    /// Removes the past versions of these documents, and everything of deleted ones. Runs on the
    /// recorder's thread after all events are processed.
    func purge(_ subject: PurgeSubject, _ wish: Purge, _ report: PurgeReport)
        throws(VolumeError) -> PurgeReport
    {
        var report = report
        let choice = try versions.chooseVersions(wish.bytes) { reader in
            var found: [VersionRemoval.Candidate] = []
            for key in subject.documents {
                guard let item = try reader.item(key) else { continue }
                try self.versions.forEachVersion(of: item, reader) { version, reason in
                    guard wish.isMeant(version.time), !subject.hidden.contains(version.version)
                    else { return }
                    if let reason { report.keep(reason) } else { found.append(version) }
                }
            }
            return found
        }
        report.versions = choice.versions.values.reduce(0) { $0 + $1.count }
        report.bytes = choice.bytes
        if !wish.isRehearsal {
            let gone = try versions.remove(choice)
            (report.versions, report.bytes) = (gone.versions, gone.bytes)
        }
        if report.bytes < wish.bytes ?? .max {
            let left = wish.bytes.map { $0 - report.bytes } ?? .max
            let (gone, kept) = try contents.remove(left, of: subject.open, wish)
            report.versions += gone.versions
            report.contents = gone.contents
            report.bytes += gone.bytes
            report.keep(.unrecorded, kept)
        }
        if !wish.isRehearsal, report.bytes > 0 {
            // Recording that failed for want of space is tried again, and reported again.
            reports.untell("recording")
            pauses.endAll()
        }
        return report
    }
}
