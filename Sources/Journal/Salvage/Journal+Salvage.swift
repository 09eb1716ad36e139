internal import GRDB
import Glibc
import Model

extension Journal {
    /// Makes a sound journal at `fresh` from what can be read of a damaged one, and syncs it to the
    /// disk.
    ///
    /// The damaged journal and its log are only read, and no program may have them open. All
    /// documents are marked as not recorded, so that all are compared with the working tree again.
    /// Schema.md says what each kind of damage costs.
    /// - Parameter isContent: Whether the digest is that of the manifest's content form. Without
    ///   this check a flipped bit in a list of chunks is not noticed until the version is read.
    /// - Throws: `.notFound`; `.damaged` when nothing in the file belongs to a journal; `.newer`;
    ///   `.invalid` when `fresh` exists; `.full`, `.denied`, `.system`. After an error there is no
    ///   file at `fresh`.
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

    /// The version is trusted only in a header that is otherwise sound, because the number itself
    /// may be damaged.
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
        // Rows arrive in any order. `Salvager` finally removes those that refer to missing rows.
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: fresh, configuration: configuration)
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction { database in
            // No program uses the file before it is complete, and it is removed after a failure. So
            // it needs no journal and no syncs.
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
