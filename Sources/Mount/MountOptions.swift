import Model

/// What `-o` says.
package struct MountOptions: Sendable {
    /// Other users than the one who mounts may enter (the kernel checks permissions).
    package var allowOther = false
    /// Reads and writes go from the kernel straight to the files, where the kernel and our
    /// privileges allow it.
    package var passthrough = true
    /// How long programs wait for their turns.
    package var turns = TurnSettings()
    /// Options of the mount that the kernel keeps: ro, noexec, nosuid, …
    package var kernel: [String] = []

    package init() {}

    /// Parses the comma-separated text of `-o`, of mount(8) and of fstab.
    package init(parsing text: String) throws(VolumeError) {
        for option in text.split(separator: ",").map(String.init) {
            switch option {
            case "allow_other": allowOther = true
            case "passthrough": passthrough = true
            case "nopassthrough": passthrough = false
            case _ where Self.kernelOptions.contains(option): kernel.append(option)
            case _ where Self.isForMountItself(option): continue
            default:
                throw VolumeError(
                    .invalid,
                    "Unknown mount option '\(option)'. Known are allow_other, nopassthrough and "
                        + Self.kernelOptions.sorted().joined(separator: ", ") + ".")
            }
        }
    }

    private static let kernelOptions: Set<String> = [
        "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime",
        "sync", "async", "dirsync",
    ]

    /// Words of fstab that mount(8) and systemd understand and hand on.
    private static func isForMountItself(_ option: String) -> Bool {
        [
            "defaults", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail",
            "_netdev", "relatime", "norelatime", "diratime", "strictatime", "lazytime",
        ]
        .contains(option) || option.hasPrefix("x-") || option.hasPrefix("comment=")
    }
}
