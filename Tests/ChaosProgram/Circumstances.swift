import Glibc
import SystemCalls

/// What can make a program of a device fail without a fault of the product.
struct Circumstances {
    /// How many faults there were so far that can make programs fail.
    var faults = 0
    /// How many times the daemon has ended so far. Its mount point is an empty directory between
    /// that and the next mount.
    var absences = 0
    /// Whether a program may be refused space.
    var isFull = false

    /// Whether an error is explained by what has happened since a program began.
    func excuse(_ error: Errno, since beginning: Circumstances) -> Bool {
        let hadFault = faults != beginning.faults
        return switch error.code {
        case ENOENT: absences != beginning.absences
        case EEXIST, ENOTEMPTY, ENOTDIR: false
        case ENETUNREACH, ETIMEDOUT: true
        case ENOSPC: hadFault || isFull || beginning.isFull
        default: hadFault
        }
    }
}
