import Foundation
import Glibc

/// An ordinary user's mount, by fusermount3. It runs in its own namespaces, in which every user may
/// open /dev/fuse, as on desktops. This machine's /dev/fuse stays as it is, and everything that was
/// started or mounted ends with the script.
package struct OrdinaryUser {
    private let home: TemporaryDirectory

    package init() throws {
        home = try TemporaryDirectory("user")
        for name in ["bin", "mount", "run", "outside"] {
            try FileManager.default.createDirectory(
                atPath: "\(home.path)/\(name)", withIntermediateDirectories: false)
        }
        try Command(
            "chown", "nobody", home.path, "\(home.path)/mount", "\(home.path)/run",
            "\(home.path)/outside"
        ).succeed()
    }

    /// Runs a script as the user nobody, in a directory with an empty `mount`; `concord` and
    /// `fsctl` are in its PATH. `asRoot` runs before the user is changed. The next script finds
    /// what this one has left in the directory.
    package func run(_ script: String, asRoot: String = "") throws -> Command.Result {
        let outer = """
            mount --bind "$1" /mnt && mount --bind "$2" /mnt/bin
            test -e /mnt/fuse || mknod -m 666 /mnt/fuse c 10 229; mount --bind /mnt/fuse /dev/fuse
            \(asRoot)
            cd /mnt
            exec env -u XDG_DATA_HOME HOME=/mnt XDG_RUNTIME_DIR=/mnt/run PATH="/mnt/bin:$PATH" \\
                setpriv --reuid=nobody --regid=nogroup --clear-groups sh -ec "$3"
            """
        var command = Command(
            "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc",
            "sh", "-ec", outer, "-", home.path,
            Programs.directory, script)
        command.timeoutSeconds = 100
        return try command.run()
    }

    package func succeed(_ script: String, asRoot: String = "") throws -> String {
        let result = try run(script, asRoot: asRoot)
        guard result.status == 0 else {
            throw SupportError("\(result.status): \(result.output)\(result.errors)")
        }
        return result.output
    }

    /// Why these tests cannot run here; nil if they can.
    package static let obstacle: String? = {
        guard geteuid() == 0 else { return "it takes root to become an ordinary user" }
        guard let user = try? OrdinaryUser(),
            let tried = try? user.run(
                "command -v fusermount3 && exec 3<>/dev/fuse && concord --version")
        else { return "no namespace can be made here" }
        return tried.status == 0 ? nil : tried.errors + tried.output
    }()
}
