/// What one client, and all of them together, may cost the daemon.
package struct Limits: Sendable {
    /// Bytes of a request.
    package var lineBytesMax = 1 << 20
    package var clientsMax = 512
    /// Of one user who does not own the volume, so that nobody can shut the owner out.
    package var clientsPerUserMax = 64
    /// Between the first byte of a request and its end.
    package var halfLineSeconds = 10.0
    /// For a reader that does not take its answer.
    package var stallSeconds = 10.0
    /// A silent client is dropped after so long when another one wants its place.
    package var idleSeconds = 30.0
    /// Bytes that wait for a client that presents or watches and does not read.
    package var pushBytesMax = 4 << 20
    /// Requests longer than this are understood on a thread of their own.
    package static let shortLineBytesMax = 64 << 10
    /// Of one connection: claims that it has and that wait, presenters; items in one claim.
    package static let claimsMax = 20_000
    package static let presentersMax = 20_000
    package static let accessesMax = 1_000
    /// Bytes in the answer to `extract`.
    package static let pieceBytesMax = 512 << 10
    /// Entries in the answer to `contents`.
    package static let entriesMax = 1000
    /// Bytes of an answer that a client of ours takes: a history of 200,000 versions fits.
    package static let replyBytesMax = 128 << 20

    package init() {}
}
