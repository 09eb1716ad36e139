import Model
import Synchronization

// A pack that the present index does not name may be named by another one: an index that was lost,
// or one that is restored from a backup. Such a pack is moved to `quarantine/` in the store's
// directory, and the program never deletes it.
extension PackStore {
    /// Moves a pack into quarantine. A reader that still uses a location in it gets `.damaged`.
    package func quarantine(pack: UInt32) throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.leave(pack) }
        try directory.quarantine(pack)
    }

    /// Moves a pack back into the store. Its locations are valid again.
    package func restore(pack: UInt32) throws(VolumeError) { try directory.restore(pack) }

    /// The packs in quarantine and their sizes in bytes.
    package func quarantinedPacks() throws(VolumeError) -> [UInt32: UInt64] {
        try directory.quarantinedPacks()
    }

    /// The highest pack number, including packs in quarantine; 0 when there are no packs.
    package var newestPack: UInt32 { directory.newest }
}
