import Model

/// Fetches bytes that are not on this device: the hub, as the volume sees it.
///
/// Methods are called on several threads that may wait. They end by themselves when nothing arrives
/// for long; a call fails at once if no hub answers.
package protocol RemoteContents: Sendable {
    /// The list of chunks of a version.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound` (the hub has no such version), `.damaged`.
    func manifest(of version: Identifier) throws(VolumeError) -> Manifest

    /// Fetches chunks. Calls `each` with the index in `references` and the plain bytes of each
    /// chunk, in any order, on the caller's thread. The caller verifies the bytes. `version` is one
    /// that has all of them.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound`, `.damaged`, and what `each` throws.
    func chunks(
        _ references: [ChunkReference], of version: Identifier,
        each: (Int, [UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError)
}
