import Foundation

/// What a hub had when it was copied, as one finds it in a snapshot of its disk.
package struct HubCopy {
    let directory: String
    /// The name of the copy of its database, if its ledger is there. Its objects in S3 stay where
    /// they are.
    let database: String?
}

extension HubProcess {
    /// Copies the data, for which the hub is stopped.
    package func copyData() throws -> HubCopy {
        try stop()
        let copy = HubCopy(
            directory: "\(data)-copy", database: try PostgresServer.chosenCopy(for: data))
        try Command("cp", "-a", data, copy.directory).succeed()
        try start()
        return copy
    }

    /// Puts a copy of the data back, so that the hub is an older one. It must not run.
    package func replaceData(by copy: HubCopy) throws {
        try Command("rm", "-r", data).succeed()
        try Command("mv", copy.directory, data).succeed()
        if let database = copy.database { try PostgresServer.putBack(database, for: data) }
    }

    /// Runs `concord hub backup`, and returns the directory that it has made.
    package func backUp() throws -> String {
        let backup = "\(data)-backup"
        try run("backup", backup)
        return backup
    }

    /// Puts a backup back as `Moving.md` says. The hub must not run.
    package func restore(_ backup: String) throws {
        try Command("rm", "-r", data).succeed()
        try Command("cp", "-a", backup, data).succeed()
        let place = "\(data)-restored"
        guard let ledger = try PostgresServer.chosenDatabase(for: place) else {
            stay()
            try run("restored")
            return
        }
        try moveData(to: ledger, blobs: try S3Server.chosenPlace(for: place))
    }
}
