import Glibc
import Model

// What the mount tells the recorder after a request that destroys nothing.
extension EventQueue {
    /// Must be called when a new name was created (create, mkdir, symlink, mknod). `isWriting`: the
    /// file is being opened for writing; `FileWriting.open` or `isNotOpened` must follow.
    package func created(
        _ place: Place, status: stat, seen: NamedBase? = nil, isWriting: Bool = false,
        by actor: Actor
    ) {
        append(
            .created(place.spot, FileSnapshot(status), isWriting: isWriting, by: actor),
            seen.map { [.unseen(inode: UInt64(status.st_ino), $0)] } ?? [])
    }

    /// The creator of the file could not open it.
    package func isNotOpened(_ status: stat) {
        append(.untouched(inode: UInt64(status.st_ino)))
    }

    /// Must be called when an inode has got another name.
    package func linked(_ place: Place, status: stat, by actor: Actor) {
        append(.linked(place.spot, FileSnapshot(status), by: actor))
    }

    /// Called when `user.concord.package` of a directory was set or removed.
    package func packageAttributeChanged(inode: UInt64) { append(.packaged(inode: inode)) }

    /// Called when mode, attributes or times of a file or directory were changed.
    package func attributesChanged(inode: UInt64) { append(.attributes(inode: inode)) }

    /// The same after a change of a directory's owner, mode or access control list.
    ///
    /// - Parameter file: Any descriptor of the directory.
    package func protectionChanged(ofDirectory inode: UInt64, file: Int32) {
        append(.attributes(inode: inode, Protection(of: file)))
    }
}
