import Model

/// The mount options (`-o`).
package struct MountOptions: Sendable {
    /// Whether users other than the one who mounts may access the mount; the kernel checks
    /// permissions.
    package var allowOther = false
    /// Whether the kernel reads and writes the files directly, where the kernel and our privileges
    /// allow it.
    package var passthrough = true
    /// Whether requests may come over io_uring, where the kernel offers that.
    package var rings = false
    /// How long programs wait for claims and for each other.
    package var arbitration = CoordinationSettings()
    /// Mount options that the kernel handles: ro, noexec, nosuid, …
    package var kernel: [String] = []

    package init() {}

    /// Parses the comma-separated text of `-o`, of mount(8) and of fstab.
    package init(parsing text: String) throws(VolumeError) {
        for option in text.split(separator: ",").map(String.init) {
            switch option {
            case "allow_other": allowOther = true
            case "passthrough": passthrough = true
            case "nopassthrough": passthrough = false
            case "uring": rings = true
            case "nouring": rings = false
            case _ where Self.kernelOptions.contains(option): kernel.append(option)
            case _ where Self.isForMountItself(option): continue
            default:
                throw VolumeError(
                    .invalid,
                    "Unknown mount option '\(option)'. Known options are allow_other, "
                        + "passthrough, nopassthrough, uring, nouring and "
                        + Self.kernelOptions.sorted().joined(separator: ", ") + ".")
            }
        }
    }

    private static let kernelOptions: Set<String> = [
        "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime",
        "sync", "async", "dirsync",
    ]

    /// Options in fstab that are meant for mount(8) or systemd, which pass them on.
    private static func isForMountItself(_ option: String) -> Bool {
        [
            "defaults", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail",
            "_netdev", "relatime", "norelatime", "diratime", "strictatime", "lazytime",
        ]
        .contains(option) || option.hasPrefix("x-") || option.hasPrefix("comment=")
    }
}
