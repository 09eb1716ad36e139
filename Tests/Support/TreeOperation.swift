import Glibc

/// One step of the random tester. Paths are relative to the root of a side. `slot` is one of the
/// handles that a side keeps open across steps.
package enum TreeOperation: Sendable {
    case open(slot: Int, path: String, flags: Int32)
    case close(slot: Int)
    case write(slot: Int, offset: Int, count: Int, fill: UInt8)
    case read(slot: Int, offset: Int, count: Int)
    case mapWrite(slot: Int, offset: Int, count: Int, fill: UInt8)
    case resize(slot: Int, size: Int)
    case sync(slot: Int)
    case allocate(slot: Int, mode: Int32, offset: Int, length: Int)
    case copyRange(from: Int, to: Int, source: Int, target: Int, count: Int)
    case writeWhole(path: String, count: Int, fill: UInt8)
    case replace(path: String, count: Int, fill: UInt8)
    case truncate(path: String, size: Int)
    case rename(String, String, flags: UInt32)
    case link(String, String)
    case unlink(String)
    case makeDirectory(String, mode: mode_t)
    case removeDirectory(String)
    case symlink(target: String, path: String)
    case readLink(String)
    case changeMode(String, mode_t)
    case setTimes(String, access: Int, modification: Int)
    case setAttribute(String, name: String, count: Int)
    case removeAttribute(String, name: String)
    case list(String)
    case status(String)
    case remount

    var isOnHandle: Bool {
        switch self {
        case .open, .close, .write, .read, .mapWrite, .resize, .sync, .allocate, .copyRange: true
        default: false
        }
    }
}

/// Generates random operations. Their names collide often, like those of real programs.
package struct TreeOperations {
    /// The paths that existed at the last check, links and directories, too. Most operations use
    /// one of them.
    package var known: [String] = []
    private var random: SeededRandom
    private let canRemount: Bool
    private static let slots = 6
    private static let reach: Int = 200_000
    private static let names = [
        "a", "b", "c", "letter.txt", "photo.jpg", "über größe.odt", longName.full,
    ]

    /// The longest possible name, and how it is printed.
    static let longName = (full: String(repeating: "n", count: 251) + ".txt", short: "n…n.txt")

    package init(random: SeededRandom, canRemount: Bool) {
        self.random = random
        self.canRemount = canRemount
    }

    package mutating func next() -> TreeOperation {
        switch random.below(100) {
        case 0..<34: onHandle()
        case 34..<48: onContents()
        case 48..<76: onNames()
        case 76..<99: onAttributes()
        default: canRemount && random.oneIn(3) ? .remount : .list(path())
        }
    }

    private mutating func onHandle() -> TreeOperation {
        let slot = random.below(Self.slots)
        let offset = random.below(Self.reach)
        let count = 1 + random.below(random.oneIn(3) ? 70_000 : 5_000)
        let fill = UInt8(truncatingIfNeeded: random.next())
        switch random.below(20) {
        case 0..<6: return .open(slot: slot, path: path(), flags: flags())
        case 6, 7: return .close(slot: slot)
        case 8..<12: return .write(slot: slot, offset: offset, count: count, fill: fill)
        case 12, 13: return .read(slot: slot, offset: offset, count: count)
        case 14, 15: return .mapWrite(slot: slot, offset: offset, count: count, fill: fill)
        case 16: return .resize(slot: slot, size: offset)
        case 17: return .sync(slot: slot)
        case 18:
            // Default, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, and ZERO_RANGE: the modes that FUSE
            // passes on.
            let mode = random.pick([Int32(0), 1, 3, 0x10])
            return .allocate(slot: slot, mode: mode, offset: offset, length: count)
        default:
            let target = random.below(Self.reach)
            return .copyRange(
                from: slot, to: random.below(Self.slots), source: offset, target: target,
                count: count)
        }
    }

    private mutating func flags() -> Int32 {
        let access = random.pick([O_RDONLY, O_WRONLY, O_RDWR, O_RDWR])
        let more = random.pick([
            0, 0, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_CREAT | O_TRUNC, O_TRUNC, O_APPEND,
            O_CREAT | O_APPEND, O_NOFOLLOW, O_CREAT | O_NONBLOCK,
        ])
        return access | more
    }

    private mutating func onContents() -> TreeOperation {
        let count = random.below(random.oneIn(4) ? 150_000 : 9_000)
        let fill = UInt8(truncatingIfNeeded: random.next())
        switch random.below(5) {
        case 0, 1: return .writeWhole(path: path(), count: count, fill: fill)
        case 2, 3: return .replace(path: path(), count: count, fill: fill)
        default: return .truncate(path: path(), size: count)
        }
    }

    private mutating func onNames() -> TreeOperation {
        switch random.below(14) {
        case 0..<3: .rename(path(), path(), flags: 0)
        case 3: .rename(path(), path(), flags: 1)  // RENAME_NOREPLACE
        case 4: .rename(path(), path(), flags: 2)  // RENAME_EXCHANGE
        case 5, 6: .link(path(), path())
        case 7, 8: .unlink(path())
        case 9, 10: .makeDirectory(path(), mode: random.pick([0o755, 0o700, 0o2775, 0o1777]))
        case 11: .removeDirectory(path())
        case 12: .symlink(target: random.pick(["a", "nowhere/../b", "nowhere", "."]), path: path())
        default: .readLink(path())
        }
    }

    private mutating func onAttributes() -> TreeOperation {
        let name = "user." + random.pick(["color", "origin", "größe"])
        switch random.below(9) {
        // Set-ID bits have tests of their own (PosixPermissionTests). Here a write clears them,
        // even one by root, if the descriptor was opened before they were set.
        case 0: return .changeMode(path(), random.pick([0o644, 0o600, 0o755, 0o1755, 0o444]))
        case 1:
            let time = 1_000_000_000 + random.below(1_000_000)
            return .setTimes(path(), access: time, modification: time + 7)
        case 2, 3: return .setAttribute(path(), name: name, count: random.below(200))
        case 4: return .removeAttribute(path(), name: name)
        case 5: return .list(path())
        default: return .status(path())
        }
    }

    /// A path that exists, or an invented one in the root or below something that exists.
    private mutating func path() -> String {
        if !known.isEmpty && random.below(10) < 6 { return random.pick(known) }
        let name = random.pick(Self.names)
        let directory = known.isEmpty ? "" : random.pick(known)
        let depth = directory.split(separator: "/").count
        return random.oneIn(2) || depth == 0 || depth > 2 ? name : "\(directory)/\(name)"
    }
}
