import Glibc
import Model

/// The options after `-o`: words separated by commas, as in mount(8) and /etc/fstab.
package struct MountOptions: Hashable, Sendable {
    /// Whether all users may enter, not only the one who mounts. This is the default for root.
    package var allowOther = geteuid() == 0
    /// Whether the kernel checks permissions by mode bits.
    package var defaultPermissions = false
    package var passthrough = true
    /// Whether requests may come over io_uring, where the kernel offers that.
    package var rings = false
    package var listConflicts = false
    /// The volume's name, used when its store is created.
    package var name: String?
    /// How long programs wait for claims and leases, in seconds.
    package var arbitration: [WaitLimit: Double] = [:]
    /// Whether file coordination is on.
    package var coordination = true
    /// The most bytes to keep here of documents that the hub has, too.
    package var cache: Int64?
    /// The bytes of the disk to keep free by evicting.
    package var free: Int64?
    /// The most bytes a second to and from the hub.
    package var limitUp: Int?
    package var limitDown: Int?
    /// The seconds for which the daemon may be stopped before its mount is taken away; 0 means no
    /// limit.
    package var suspendTime = 60.0
    /// Options for the kernel: ro, nosuid, nodev, noexec, noatime, … Of two that contradict each
    /// other the later one counts.
    package var generic: [String] = []

    package init() {}

    package init(_ text: String) throws(VolumeError) {
        for word in text.split(separator: ",") { try take(String(word)) }
    }

    private mutating func take(_ word: String) throws(VolumeError) {
        switch word {
        case "allow_other": allowOther = true
        case "noallow_other": allowOther = false
        case "default_permissions": defaultPermissions = true
        case "passthrough": passthrough = true
        case "nopassthrough": passthrough = false
        case "uring": rings = true
        case "nouring": rings = false
        case "list_conflicts": listConflicts = true
        case "coordination": coordination = true
        case "nocoordination": coordination = false
        // mount(8) drops the words `suid` and `dev`, its defaults, before it calls a helper.
        case "allow_suid": replace("suid")
        case "allow_dev": replace("dev")
        case _ where WaitLimit(option: word) != nil: try take(time: word)
        case _ where word.hasPrefix("suspend_timeout="):
            suspendTime = try MountOptions.seconds(word)
        case _ where word.hasPrefix("cache="): cache = try MountOptions.size(word)
        case _ where word.hasPrefix("free="): free = try MountOptions.size(word)
        case _ where word.hasPrefix("limit_up="): limitUp = try MountOptions.rate(word)
        case _ where word.hasPrefix("limit_down="): limitDown = try MountOptions.rate(word)
        case _ where word.hasPrefix("name="): name = try MountOptions.name(word.dropFirst(5))
        case _ where MountOptions.pairs.contains { $0.contains(word) }: replace(word)
        case _ where MountOptions.isForOthers(word): return
        default:
            throw VolumeError(
                .invalid,
                "there is no mount option \"\(word)\"; Concord's are "
                    + "\(MountOptions.own.joined(separator: ", ")), and of mount(8) ro, "
                    + "nosuid, nodev, noexec, noatime, sync and their opposites"
            )
        }
    }

    private mutating func replace(_ word: String) {
        let rivals = MountOptions.pairs.first { $0.contains(word) } ?? []
        generic.removeAll { rivals.contains($0) }
        if !MountOptions.unknownToLibfuse.contains(word) { generic.append(word) }
    }

    private mutating func take(time word: String) throws(VolumeError) {
        guard let time = WaitLimit(option: word) else { return }
        arbitration[time] = try MountOptions.seconds(word)
    }

    private static func seconds(_ word: String) throws(VolumeError) -> Double {
        let (name, text) = parts(word)
        guard let seconds = Double(text), seconds >= 0, seconds <= 86_400 else {
            throw VolumeError(
                .invalid, "\(name)=\(text) is not a number of seconds from 0 to 86400")
        }
        return seconds
    }

    private static func size(_ word: String) throws(VolumeError) -> Int64 {
        let (name, text) = parts(word)
        guard let bytes = ByteSize.read(text) else {
            throw VolumeError(
                .invalid,
                "\(name)=\(text) is not a size: write 500M or 20G (powers of 1000)")
        }
        guard bytes < .max else {
            throw VolumeError(.invalid, "\(name)=\(text) is larger than any disk")
        }
        return bytes
    }

    /// Returns bytes a second; nil for 0, which means no limit.
    private static func rate(_ word: String) throws(VolumeError) -> Int? {
        let (name, text) = parts(word)
        guard let number = Int(text), number >= 0, number <= 1_000_000_000 else {
            throw VolumeError(
                .invalid, "\(name)=\(text) is not a number of kilobytes a second")
        }
        return number == 0 ? nil : number * 1000
    }

    private static func parts(_ word: String) -> (name: Substring, text: Substring) {
        let equals = word.firstIndex(of: "=") ?? word.endIndex
        return (word[..<equals], word[equals...].dropFirst())
    }

    private static func name(_ text: some StringProtocol) throws(VolumeError) -> String {
        guard !text.isEmpty, text.utf8.count <= 255, !text.utf8.contains(where: { $0 < 0x20 })
        else {
            throw VolumeError(
                .invalid, "name= needs a volume's name: 1 to 255 bytes, no control characters")
        }
        return String(text)
    }

    static let own =
        [
            "allow_other", "noallow_other", "default_permissions", "passthrough", "nopassthrough",
            "uring", "nouring", "list_conflicts", "nocoordination", "allow_suid", "allow_dev",
        ]
        + WaitLimit.allCases.map { "\($0.rawValue)=SECONDS" }
        + [
            "suspend_timeout=SECONDS", "cache=SIZE", "free=SIZE", "limit_up=KB", "limit_down=KB",
            "name=NAME",
        ]

    /// The options of one row exclude each other.
    private static let pairs = [
        ["ro", "rw"], ["suid", "nosuid"], ["dev", "nodev"], ["exec", "noexec"],
        ["atime", "noatime", "relatime", "norelatime", "strictatime"],
        ["diratime", "nodiratime"], ["sync", "async"], ["dirsync"],
    ]

    /// libfuse refuses these options. They would change nothing, because the file system below the
    /// store decides about access times.
    private static let unknownToLibfuse = [
        "relatime", "norelatime", "strictatime", "diratime", "nodiratime",
    ]

    /// Whether mount(8), systemd or /etc/fstab use the word themselves and may pass it on.
    private static func isForOthers(_ word: String) -> Bool {
        let words = [
            "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail",
            "_netdev", "silent", "loud", "lazytime", "nolazytime", "_rnetdev",
        ]
        let prefixes = ["x-", "X-", "comment=", "user="]
        return words.contains(word) || prefixes.contains { word.hasPrefix($0) }
    }
}

/// The times that mount options can set; in parentheses the defaults in seconds.
package enum WaitLimit: String, Hashable, Sendable, CaseIterable {
    /// How long an open waits for a claim before it fails with EBUSY, or for programs that have the
    /// file open before it goes ahead (30).
    case timeout = "coordination_timeout"
    /// How long a rename, unlink or create waits before it goes ahead (0.25).
    case names = "names_timeout"
    /// How long an open file may be idle before it is waited for no longer (1).
    case idle = "break_time"
    /// How long a reader and a writer are waited for (5 and 10).
    case reader = "reader_time"
    case writer = "writer_time"
    /// How long an open for writing waits for an editor on another device, if the document's rules
    /// say `lock=ask` (15).
    case editor = "editor_timeout"

    init?(option word: String) {
        guard let equals = word.firstIndex(of: "=") else { return nil }
        self.init(rawValue: String(word[..<equals]))
    }
}
