import CLinux
import Control
import Glibc
import Model
import SystemCalls
import Volume

extension Volume {
    /// Whether another user than the daemon's could reach and read (or write) what lies at a path:
    /// the kernel is asked, with that user's ids, about the plain file in the working tree. Only
    /// root can ask so; else the answer is no.
    func mayAccess(_ peer: Peer, _ path: [Name], write: Bool) -> Bool {
        guard geteuid() == 0 else { return false }
        let text = Name(bytes: RawText(path: path).bytes)
        let result = text.withCString {
            cl_may_access(
                root, $0, write ? W_OK : R_OK, peer.uid, peer.gid, peer.groups,
                Int32(peer.groups.count))
        }
        // What is not there yet is its directory's.
        if result == -ENOENT, !path.isEmpty {
            return mayAccess(peer, Array(path.dropLast()), write: write)
        }
        return result == 0
    }
}
