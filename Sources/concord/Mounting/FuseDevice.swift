import Control
import Glibc
import Model
import SystemCalls

/// Checks whether this machine and this user can mount a FUSE file system.
enum FuseDevice {
    static func check(allowOther: Bool) throws(VolumeError) {
        guard access("/dev/fuse", F_OK) == 0 else {
            throw VolumeError(
                .notFound,
                "there is no /dev/fuse: load the kernel's module (modprobe fuse) or, in a "
                    + "container, pass the device into it"
            )
        }
        guard access("/dev/fuse", R_OK | W_OK) == 0 else {
            throw VolumeError(
                .denied,
                "you may not use /dev/fuse (\(Errno(errno))); ask for read and write "
                    + "permission on it"
            )
        }
        if geteuid() == 0 { return }
        guard isInPath("fusermount3") else {
            throw VolumeError(
                .denied,
                "without root's rights a mount needs fusermount3, which is not in PATH; "
                    + "install the package fuse3"
            )
        }
        if allowOther, !userMayAllowOther {
            throw VolumeError(
                .denied,
                "-o allow_other needs the line user_allow_other in /etc/fuse.conf; ask root to "
                    + "add it, or leave the option out"
            )
        }
    }

    private static func isInPath(_ program: String) -> Bool {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
        return path.split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
    }

    private static var userMayAllowOther: Bool {
        let text = contents(of: "/etc/fuse.conf") ?? []
        return text.split(separator: UInt8(ascii: "\n")).contains {
            String(decoding: $0, as: UTF8.self).split(separator: " ").first == "user_allow_other"
        }
    }
}
