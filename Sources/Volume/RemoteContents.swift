import Model

/// Where the bytes of versions are that are not on this device: the hub, as the volume sees it.
///
/// Calls come on threads that may wait, several at a time. They end by themselves when nothing
/// comes for long; a call that cannot begin because nobody answers fails at once.
package protocol RemoteContents: Sendable {
    /// The list of chunks of a version.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound` (the hub has no such version), `.damaged`.
    func manifest(of version: Identifier) throws(VolumeError) -> Manifest

    /// Calls `each` with the index in `references` and the plain bytes of every chunk, in any
    /// order, on the caller's thread. What is given is verified by whoever asked. `version` is one
    /// that has them all.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound`, `.damaged`; what `each` throws.
    func chunks(
        _ references: [ChunkReference], of version: Identifier,
        each: (Int, [UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError)
}
