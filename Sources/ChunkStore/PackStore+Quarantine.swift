import Model
import Synchronization

// A pack that no index names may hold what another index names: one that was lost, or will be put
// back. It is moved to `quarantine/` in the store's directory, and never erased by the program.
extension PackStore {
    /// Moves a pack into quarantine. A reader that still has a place in it gets `.damaged`.
    package func quarantine(pack: UInt32) throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.leave(pack) }
        try directory.quarantine(pack)
    }

    /// Moves a pack back into the store; its places hold again.
    package func restore(pack: UInt32) throws(VolumeError) { try directory.restore(pack) }

    /// The packs in quarantine, with their bytes.
    package func quarantinedPacks() throws(VolumeError) -> [UInt32: UInt64] {
        try directory.quarantinedPacks()
    }

    /// The highest number of a pack, those in quarantine included; 0 for none.
    package var newestPack: UInt32 { directory.newest }
}
