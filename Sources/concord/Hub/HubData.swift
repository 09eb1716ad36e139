import ArgumentParser
import Control
import Glibc
import Hub
import HubPostgres
import HubS3
import Model

/// The options `--data`, `--ledger` and `--blobs`, which every hub command takes.
struct HubData: ParsableArguments {
    @Option(help: "The hub's directory.", completion: .directory)
    var data: String

    @Option(
        help: ArgumentHelp(
            "The PostgreSQL database with the hub's ledger. Default: SQLite in the directory.",
            discussion: """
                postgres://USER@HOST/DATABASE, or postgres:///DATABASE?host=/run/postgresql for \
                a Unix socket. A password is read from ~/.pgpass, or from the file that \
                PGPASSFILE or ?passfile=FILE names. Give the same database to all commands.
                """,
            valueName: "url"))
    var ledger: String?

    @Option(
        help: ArgumentHelp(
            "The S3 bucket with the hub's blobs. Default: the directory.",
            discussion: """
                s3://BUCKET/PREFIX, with ?endpoint=URL unless it is AWS's, and &region=NAME. The \
                keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from a file \
                with the mode 0600 that &credentials=FILE names. An http:// endpoint on another \
                machine needs &insecure=yes. Give the same bucket to all commands.
                """,
            valueName: "url"))
    var blobs: String?

    func directory() throws -> DataDirectory {
        let path = RawArgument.path(data).absolute.description
        let database = try ledger.map { PostgresSource(try PostgresAddress($0)) }
        let bucket = try blobs.map { S3Source(try S3Address($0)) }
        return DataDirectory(path, ledger: database, blobs: bucket)
    }

    /// Opens the hub's directory, calls `body`, and closes the directory.
    ///
    /// - Parameter isMoved: Whether the hub may have been moved away from here.
    func administer<Result: Sendable>(
        mayCreate: Bool = false, isMoved: Bool = false,
        _ body: @escaping @Sendable (Administration) async throws -> Result
    ) throws -> Result {
        let directory = try self.directory()
        // The files must be private to the hub's user, even in a directory that others may enter.
        umask(0o077)
        return try BlockingCall.wait {
            let administration = try Administration(directory, mayCreate: mayCreate)
            let result =
                isMoved
                ? try await body(administration) : try await administration.whileHere(body)
            try administration.close()
            return result
        }
    }
}
