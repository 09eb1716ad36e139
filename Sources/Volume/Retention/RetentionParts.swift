import ChunkStore
import Journal
import Logging

/// The parts of the recorder that remove old contents.
struct RetentionParts {
    let sweeper: PackSweeper
    let time: RetentionTime
    let thinning: VersionThinning
    let contents: StashRemoval
    let freeable: FreeableSpace
    let space: SpaceMaker

    init(
        writer: JournalWriter, packs: PackStore, tree: Int32, stash: Stash, kept: KeptContents,
        room: Room, reserve: Reserve, settings: Settings, measured: Freeable, pauses: WorkPauses,
        closing: ClosingTime, reports: RecorderReports, log: Logger
    ) {
        let journal = writer.journal
        sweeper = PackSweeper(journal: journal, packs: packs, tree: tree, closing: closing)
        let versions = VersionRemoval(writer: writer, sweeper: sweeper)
        let duplicates = DuplicateRemoval(
            writer: writer, tree: tree, kept: kept, sweeper: sweeper)
        contents = StashRemoval(writer: writer, stash: stash, versions: versions)
        freeable = FreeableSpace(
            journal: journal, settings: settings, versions: versions, contents: contents,
            duplicates: duplicates, freeable: measured, log: log)
        space = SpaceMaker(
            writer: writer, room: room, reserve: reserve, pauses: pauses, reports: reports,
            log: log, versions: versions, contents: contents, duplicates: duplicates,
            freeable: freeable)
        time = RetentionTime(journal: journal, clocks: settings.clocks)
        thinning = VersionThinning(
            writer: writer, versions: versions, time: time, settings: settings, closing: closing)
    }
}
