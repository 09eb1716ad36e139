import CLinux
import Model
import SystemCalls

// The verbs that change names. `status` is the file's own, taken just before by the caller, who serves a request during
// which the kernel lets nobody else change that directory.
extension Volume {
    /// Removes a file's name (not a directory's). True: its bytes were moved to the stash, so an open handle's link
    /// count is to be told as 0 although the inode has a name there.
    package func unlink(_ place: Place, status: stat, traits: Traits, by actor: Actor)
        throws(Errno) -> Bool
    {
        try check(cl_unlinkat(place.descriptor, place.name, 0))
        return false
    }

    package func rmdir(_ place: Place, status: stat, by actor: Actor) throws(Errno) {
        try check(cl_unlinkat(place.descriptor, place.name, 0x200))
    }

    /// renameat2(2), all flags. `moved` is what stands at `from`, `replaced` what stands at `to` (nil: nothing).
    /// True: what was replaced went to the stash.
    package func rename(
        from: Place, to: Place, flags: UInt32, moved: stat, replaced: stat?,
        movedTraits: Traits, replacedTraits: Traits, by actor: Actor
    ) throws(Errno) -> Bool {
        try check(cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags))
        return false
    }

    /// To be called when a name has been made (create, mkdir, symlink, mknod).
    package func created(_ place: Place, status: stat, by actor: Actor) {}

    /// To be called when an inode has got another name.
    package func linked(_ place: Place, status: stat, by actor: Actor) {}

    /// Whether files of that name are never versions: temporary and lock files, and what the ignore file adds.
    package func isLocal(_ name: UnsafePointer<CChar>) -> Bool { false }
}
