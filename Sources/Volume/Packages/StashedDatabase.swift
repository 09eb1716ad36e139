import Journal
import Model
import SystemCalls

/// Reads a database in the stash as SQLite would, with the log that was kept with it.
struct StashedDatabase {
    let contents: ContentReader

    /// The contents together with their log; nil if SQLite would not apply anything of one. Alone
    /// the contents may be half a transaction, so they are no version then unless they are the
    /// current one.
    func content(_ cut: CutPriorContent, _ item: Item) throws(VolumeError) -> CutPriorContent? {
        guard item.kind == .file, !cut.prior.isBase, let entry = cut.prior.entry,
            let log = try contents.stash.openLog(of: entry)
        else { return nil }
        let pages: DatabasePages?
        let file: Descriptor
        do throws(Errno) {
            pages = try DatabasePages(log: log.raw)
            file = try contents.stash.open(entry.file)
        } catch {
            throw VolumeError(.system, "\(entry.file) in the stash cannot be read: \(error).")
        }
        guard let pages else { return nil }
        var snapshot = cut.snapshot
        snapshot.size = pages.size
        let database = LoggedDatabase(cut.source, pages, log: log)
        let logged = try CutPriorContent(
            cut.prior, file, snapshot, .database(database), over: cut,
            mayGoOn: contents.closing.check)
        guard logged.cut.digest != cut.cut.digest else { return nil }
        let current = try contents.writer.version(item.current, of: item)
        if current?.content != cut.cut.digest { cut.becomeBase() }
        return logged
    }
}

extension Stash {
    /// A program that was killed may have left a log beside its database. The next program that
    /// opens the database applies the log and removes it, so a copy is kept with the old contents.
    /// Returns `.copy`, with nothing done, if that is more than `patience`.
    func keepLog(
        of file: Int32, _ snapshot: FileSnapshot, with name: String, patience: Patience
    ) -> Patience? {
        guard DatabaseLog.maybeDatabase(snapshot), let log = DatabaseLog.openLog(of: file) else {
            return nil
        }
        guard patience >= .copy else { return .copy }
        copyLog(log.raw, of: name)
        return nil
    }
}
