/// The limits on what one client, and all clients together, may cost the daemon.
package struct Limits: Sendable {
    /// The maximum bytes of a request.
    package var lineBytesMax = 1 << 20
    package var clientsMax = 512
    /// The connections of one user who does not own the volume, so that nobody can shut the owner
    /// out.
    package var clientsPerUserMax = 64
    /// Connections that clients with claims or presenters leave to others, of all and of one user,
    /// so that fsctl is always answered: such a client is never dropped.
    package var clientsReserved = 32
    package var clientsOfUserReserved = 8
    /// The maximum time between the first byte of a request and its end.
    package var halfLineSeconds = 10.0
    /// The time after which a client that does not read its answer is dropped.
    package var stallSeconds = 10.0
    /// The time after which a silent client may be dropped to make room for another one.
    package var idleSeconds = 30.0
    /// The maximum number of bytes that wait for a presenter or watcher that does not read.
    package var pushBytesMax = 4 << 20
    /// Longer requests are decoded on their own threads.
    package static let shortLineBytesMax = 64 << 10
    /// For each connection: the claims that are granted or wait, and the presenters; and the items
    /// in one claim.
    package static let claimsMax = 20_000
    package static let presentersMax = 20_000
    package static let accessesMax = 1_000
    /// The names in a path.
    package static let namesMax = 4_096
    /// The names in the paths of all claims and presenters of one connection. Each can be a place
    /// that the daemon has to keep, and that a claim on a directory has to visit.
    package static let claimedNamesMax = 200_000
    /// The same for a user who does not own the volume.
    package static let claimedNamesOfOthersMax = 20_000
    /// The same for all connections together of all users who do not own the volume. One user gets
    /// at most half of it, and the next ones half of what is left. A name costs up to half a
    /// kilobyte, and a claim or presenter as much as four names.
    package static let claimedNamesTogetherMax = 100_000
    package static let claimCost = 4
    /// The maximum bytes in the answer to `extract`.
    package static let pieceBytesMax = 512 << 10
    /// The maximum number of entries in the answer to `contents`.
    package static let entriesMax = 1000
    /// The maximum bytes of an answer that our client accepts; a history of 200,000 versions fits.
    package static let replyBytesMax = 128 << 20

    package init() {}
}
