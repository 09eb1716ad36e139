import Model

/// An error of the server, or of the connection to it.
struct PostgresFault: Error, Hashable, CustomStringConvertible {
    /// Five characters that say which error it is (appendix A of PostgreSQL's manual); empty if
    /// the error comes from the connection.
    let sqlState: String
    /// The message of the server or of libpq, without passwords.
    let message: String
    /// Whether the connection cannot be used any more.
    let endsConnection: Bool

    init(sqlState: String, message: String) {
        self.sqlState = sqlState
        self.message = PostgresFault.line(message)
        // A server that shuts down or that has become a standby, and a transaction that waited for
        // the hub too long.
        let ended: Set = ["57P01", "57P02", "57P03", "57P05", "25P03", "25006"]
        endsConnection = ended.contains(sqlState) || sqlState.hasPrefix("08")
    }

    /// The connection has failed.
    init(lost message: String) {
        sqlState = ""
        self.message = PostgresFault.line(message)
        endsConnection = true
    }

    private static func line(_ message: String) -> String {
        message.split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    /// Whether the same transaction may succeed when it is run again.
    var isTransient: Bool { endsConnection || sqlState == "40001" || sqlState == "40P01" }

    var description: String { sqlState.isEmpty ? message : "\(message) (\(sqlState))" }

    /// - Parameter place: The database's name for people.
    func error(of place: String) -> VolumeError {
        if endsConnection {
            return VolumeError(
                .offline, "The ledger's database \(place) cannot be reached: \(self).")
        }
        switch sqlState {
        case "53100":
            return VolumeError(
                .full,
                "The disk of the ledger's database \(place) is full: make room, and try "
                    + "again.")
        case "40001", "40P01", "55P03", "57014", "53200", "53300":
            return VolumeError(.busy, "The ledger's database \(place) is busy: \(self).")
        case "42501":
            return VolumeError(
                .denied, "The ledger's database \(place) refuses its user: \(self).")
        case let state where state.hasPrefix("28"):
            return VolumeError(
                .denied, "The ledger's database \(place) refuses its user: \(self).")
        case "3D000":
            return VolumeError(
                .notFound, "There is no database \(place): create it with createdb.")
        case "XX001", "XX002":
            return VolumeError(
                .damaged, "The ledger's database \(place) is damaged (\(self)): restore a backup.")
        default:
            return VolumeError(.system, "The ledger's database \(place) failed: \(self).")
        }
    }
}
