import CLinux
import Control
import Glibc
import Model
import SystemCalls
import Volume

extension Peer {
    /// Root and the user who mounted the volume may know everything about it.
    var isOwner: Bool { uid == 0 || uid == geteuid() }

    /// The user for whom it is decided which versions are visible.
    var onlooker: Requester {
        isOwner ? .root : Requester(uid: uid, gid: gid, groups: groups)
    }
}

extension Volume {
    /// Whether another user than the daemon's could reach and read (or write) the item at `path`.
    /// The kernel decides this with that user's ids, for the plain file in the working tree. Only
    /// root can ask the kernel so; a daemon without root's rights answers no.
    func mayAccess(_ peer: Peer, _ path: [Name], write: Bool) -> Bool {
        let mode = write ? W_OK : R_OK
        let result = reach(peer, path, mode)
        guard result == -ENOENT else { return result == 0 }
        // For an item that does not exist yet, the nearest directory that exists decides. Halving
        // finds it with a few calls, because a path can have thousands of names.
        var (existing, missing) = (0, path.count)
        while missing - existing > 1 {
            let middle = (existing + missing) / 2
            if reach(peer, Array(path[..<middle]), mode) == -ENOENT {
                missing = middle
            } else {
                existing = middle
            }
        }
        return reach(peer, Array(path[..<existing]), mode) == 0
    }

    /// Whether a user may know that there is a name at `path`: whether they could list its
    /// directory. If the directory no longer exists, only owners may know.
    func mayKnow(_ peer: Peer, of path: [Name]) -> Bool {
        peer.isOwner || path.isEmpty || reach(peer, Array(path.dropLast()), R_OK) == 0
    }

    /// Whether a request for a whole directory covers the item at `path` below it: only if the user
    /// may know its name and could also have asked for the item alone.
    func covers(_ peer: Peer, _ path: [Name], write: Bool) -> Bool {
        peer.isOwner || mayKnow(peer, of: path) && mayAccess(peer, path, write: write)
    }

    private func reach(_ peer: Peer, _ path: [Name], _ mode: Int32) -> Int32 {
        guard geteuid() == 0 else { return -EPERM }
        let text = Name(bytes: RawText(path: path).bytes)
        return text.withCString {
            cl_may_access(
                root, $0, mode, peer.uid, peer.gid, peer.groups, Int32(peer.groups.count))
        }
    }
}
