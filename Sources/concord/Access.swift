import CLinux
import Control
import Glibc
import Model
import SystemCalls
import Volume

extension Peer {
    /// Root, and the user who mounted the volume: they may know all of it.
    var isOwner: Bool { uid == 0 || uid == geteuid() }

    /// For whom versions are visible or not.
    var onlooker: Onlooker {
        isOwner ? .root : Onlooker(uid: uid, gid: gid, groups: groups)
    }
}

extension Volume {
    /// Whether another user than the daemon's could reach and read (or write) what lies at a path:
    /// the kernel is asked, with that user's ids, about the plain file in the working tree. Only
    /// root can ask so; else the answer is no.
    func mayAccess(_ peer: Peer, _ path: [Name], write: Bool) -> Bool {
        let result = reach(peer, path, write ? W_OK : R_OK)
        // What is not there yet is its directory's.
        if result == -ENOENT, !path.isEmpty {
            return mayAccess(peer, Array(path.dropLast()), write: write)
        }
        return result == 0
    }

    /// Whether a user may know of the name at a path: who could list the directory. When the
    /// directory is not there any more, nobody can tell who could.
    func mayKnow(_ peer: Peer, of path: [Name]) -> Bool {
        peer.isOwner || path.isEmpty || reach(peer, Array(path.dropLast()), R_OK) == 0
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
