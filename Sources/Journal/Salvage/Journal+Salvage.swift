internal import GRDB
import Glibc
import Model

extension Journal {
    /// Makes a sound journal at `fresh` of what can be read of a damaged one, synced to disk.
    ///
    /// The damaged journal and its log are only read; nobody may have them open. All documents are
    /// marked as not recorded, so that all are compared with the working tree again. Schema.md says
    /// what survives which damage.
    /// - Parameter isContent: Whether the digest is that of the manifest's content form. Without
    ///   it, a bit flipped in a list of chunks goes unnoticed until that version is read.
    /// - Throws: `.notFound`; `.damaged` when nothing in the file is a journal's; `.newer`;
    ///   `.invalid` when `fresh` exists; `.full`, `.denied`, `.system`. There is nothing at `fresh`
    ///   then.
    package static func salvage(
        from damaged: String, into fresh: String,
        isContent: (Digest, Manifest) -> Bool = { _, _ in true }
    ) throws(VolumeError) -> Salvage {
        let pages = try PageFile(damaged)
        try refuseNewer(pages)
        try reserve(fresh)
        do {
            let salvage = try write(fresh, from: pages, isContent)
            try synchronize(fresh)
            return salvage
        } catch {
            unlink(fresh)
            throw VolumeError(error, journal: fresh)
        }
    }

    /// Only a header that is sound otherwise is believed: the number may be the damage.
    private static func refuseNewer(_ pages: PageFile) throws(VolumeError) {
        guard let header = pages.page(1), header.starts(with: "SQLite format 3\0".utf8),
            header.big32(68) == UInt32(bitPattern: Schema.applicationID)
        else { return }
        let version = header.big32(60)
        guard version > UInt32(Schema.version), version < 1000 else { return }
        throw VolumeError(
            .newer,
            "The journal \(pages.path) was written by a newer build (format \(version), this build "
                + "knows \(Schema.version)): use that build; nothing was changed.")
    }

    private static func write(
        _ fresh: String, from pages: PageFile, _ isContent: (Digest, Manifest) -> Bool
    ) throws -> Salvage {
        var configuration = configuration(readonly: false)
        // Rows come in no order; `Salvager` leaves none that refers to a missing one.
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: fresh, configuration: configuration)
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction { database in
            // The file is nobody's until it is whole, and removed when it does not become so.
            try database.execute(
                sql: """
                    PRAGMA journal_mode = OFF;
                    PRAGMA synchronous = OFF;
                    PRAGMA cache_size = -65536;
                    """
            )
            try migrate(database)
            var salvage: Salvage?
            try database.inTransaction(.immediate) {
                let target = try Transaction(database, path: fresh)
                defer { target.close() }
                salvage = try withoutActuallyEscaping(isContent) { isContent in
                    try Salvager(pages: pages, target: target, isContent: isContent).run()
                }
                return .commit
            }
            return salvage!
        }
    }
}
