/// What one client, and all of them together, may cost the daemon.
package struct Limits: Sendable {
    /// Bytes of a request.
    package var lineBytesMax = 1 << 20
    package var clientsMax = 64
    /// Of one user who does not own the volume, so that nobody can shut the owner out.
    package var clientsPerUserMax = 16
    /// Between the first byte of a request and its end.
    package var halfLineSeconds = 10.0
    /// For a reader that does not take its answer.
    package var stallSeconds = 10.0
    /// A silent client is dropped after so long when another one wants its place.
    package var idleSeconds = 30.0
    /// Bytes in the answer to `extract`.
    package static let pieceBytesMax = 512 << 10
    /// Entries in the answer to `contents`.
    package static let entriesMax = 1000
    /// Bytes of an answer that a client of ours takes: a history of 200,000 versions fits.
    package static let replyBytesMax = 128 << 20

    package init() {}
}
