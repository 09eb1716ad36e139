import Support

/// Ways to change an existing file without replacing it. `SavePattern` has the other ways.
enum InPlace: String, CaseIterable, Sendable {
    /// Opens the file and appends a content.
    case append
    /// Overwrites the contents in two halves with others of the same length.
    case overwrite
    /// The same through a shared mapping that outlives the descriptor.
    case map
}

/// Ways to save a package.
enum PackageWay: String, CaseIterable, Sendable {
    /// Writes all of it beside the package, exchanges the two, and removes the old one, as
    /// `NSDocument` does.
    case exchange
    /// Replaces one file in it after another.
    case members
}

/// The state of the connection between a device and the hub.
enum Line: String, CaseIterable, Sendable {
    /// Bytes are passed on.
    case open
    /// All connections are closed, and new ones are refused.
    case cut
    /// Connections stay open, and no bytes are passed on.
    case stall
    /// All connections are reset once; new ones work.
    case reset
    /// Requests with operations do not reach the hub; everything else is passed on.
    case commitsWait
    /// Requests for contents do not reach the hub; everything else is passed on.
    case readsWait
}

/// A part of a store that can be missing.
enum StorePart: String, CaseIterable, Sendable {
    case tree, journal, chunks
}

/// One action of an actor. Its text form is a few words, which can be parsed again.
enum Verb: Hashable, Sendable {
    case save(String, SavePattern, size: Int, synced: Bool)
    case change(String, InPlace, size: Int)
    /// A user of the machine saves a file that has this mode from its beginning.
    case saveAs(User, String, size: Int, mode: UInt16)
    /// Saves a directory that is one document.
    case package(String, PackageWay, size: Int)
    /// Two programs add rows to an SQLite database in WAL mode at the same time.
    case transact(String, rows: Int)
    case rename(String, String)
    case exchange(String, String)
    case remove(String)
    case makeDirectory(String)
    case removeDirectory(String)
    case symlink(String, target: String)
    case link(String, String)
    /// Gives a file this date, in seconds since 1970, as an archive or a camera does.
    case date(String, seconds: Int)
    case read(String)
    /// Shares a document by a link, opens it without an account, and revokes it.
    case visit(String)
    /// The programs of the device do nothing for this time.
    case think(milliseconds: Int)
    /// Reads half of a file, and after this time the other half, through the same handle.
    case hold(String, milliseconds: Int)
    /// Waits with `fsctl wait` until the file has this durability.
    case wait(String, durability: String)
    case restore(String, back: Int)
    /// Makes a file or a directory what it was some seconds ago, with `fsctl rewind`.
    case rewind(String, seconds: Int)
    /// Removes old versions for good, with `fsctl purge`.
    case purge(String)
    case evict(String)
    case pin(String)
    case unpin(String)
    case offline
    case online
    /// Signs the device out of the hub with `--force`, and in to it again with a new code.
    case signOut
    case signIn
    /// Signs the device out, and in to another hub, which exists for this round.
    case signInElsewhere
    /// For a device's or the hub's process: SIGKILL, a restart, SIGSTOP and SIGCONT.
    case kill
    case start
    case stop
    case go
    case line(Line)
    /// For a device or the hub: copies its store in the state after a kill, and later puts the copy
    /// back.
    case keep
    case rollBack
    /// Kills a device, and continues with its store in another directory.
    case moveStore
    /// Kills a device, and continues with its store, and with a copy of it as a further device.
    case copyStore
    /// Kills a device, tries to mount it without a part of its store, which must be refused, and
    /// continues with the whole store.
    case lack(StorePart)
    /// Sets the clock of a device or the hub; 0 is the right time.
    case clock(ahead: Int)
    /// All devices are off for some days, and the hub's clock goes on.
    case sleep(days: Int)
    /// Cuts the power of the device's disk, and ends its daemon. A start follows.
    case losePower
    /// Fills the device's disk, or frees it again.
    case fill
    case free
    /// Limits what the hub keeps for the account; nil ends the limit.
    case quota(bytes: Int?)
    /// Ends all faults, waits until all devices are synchronised, and takes the inventory.
    case settle

    var words: [String] {
        switch self {
        case .save(let path, let way, let size, let synced):
            ["save", path, "\(way)", "\(size)", synced ? "synced" : "unsynced"]
        case .saveAs(let user, let path, let size, let mode):
            ["save-as", path, user.rawValue, "\(size)", String(mode, radix: 8)]
        case .change(let path, let way, let size): ["change", path, way.rawValue, "\(size)"]
        case .package(let path, let way, let size): ["package", path, way.rawValue, "\(size)"]
        case .transact(let path, let rows): ["transact", path, "\(rows)"]
        case .rename(let from, let to): ["rename", from, to]
        case .exchange(let one, let other): ["exchange", one, other]
        case .remove(let path): ["remove", path]
        case .makeDirectory(let path): ["mkdir", path]
        case .removeDirectory(let path): ["rmdir", path]
        case .symlink(let path, let target): ["symlink", path, target]
        case .link(let from, let to): ["link", from, to]
        case .date(let path, let seconds): ["date", path, "\(seconds)"]
        case .read(let path): ["read", path]
        case .visit(let path): ["visit", path]
        case .think(let milliseconds): ["think", "\(milliseconds)"]
        case .hold(let path, let milliseconds): ["hold", path, "\(milliseconds)"]
        case .wait(let path, let durability): ["wait", path, durability]
        case .restore(let path, let back): ["restore", path, "\(back)"]
        case .rewind(let path, let seconds): ["rewind", path, "\(seconds)"]
        case .purge(let path): ["purge", path]
        case .evict(let path): ["evict", path]
        case .pin(let path): ["pin", path]
        case .unpin(let path): ["unpin", path]
        case .offline: ["offline"]
        case .online: ["online"]
        case .signOut: ["sign-out"]
        case .signIn: ["sign-in"]
        case .signInElsewhere: ["sign-in-elsewhere"]
        case .moveStore: ["move-store"]
        case .copyStore: ["copy-store"]
        case .lack(let part): ["lack", part.rawValue]
        case .clock(let ahead): ["clock", "\(ahead)"]
        case .sleep(let days): ["sleep", "\(days)"]
        case .kill: ["kill"]
        case .start: ["start"]
        case .stop: ["stop"]
        case .go: ["go"]
        case .line(let line): ["line", line.rawValue]
        case .keep: ["keep"]
        case .rollBack: ["roll-back"]
        case .losePower: ["lose-power"]
        case .fill: ["fill"]
        case .free: ["free"]
        case .quota(let bytes): ["quota", bytes.map { "\($0)" } ?? "none"]
        case .settle: ["settle"]
        }
    }

    /// Returns nil if the words are not a valid verb.
    init?(words: [String]) {
        let verb: Verb?
        switch words.count {
        case 1: verb = Verb(alone: words[0])
        case 2: verb = Verb(words[0], of: words[1])
        case 3: verb = Verb(words[0], words[1], words[2])
        default: verb = Verb(long: words)
        }
        guard let verb else { return nil }
        self = verb
    }

    private init?(alone word: String) {
        let all: [Verb] = [
            .offline, .online, .signOut, .signIn, .kill, .start, .stop, .go, .keep, .rollBack,
            .settle, .losePower, .fill, .free, .signInElsewhere, .moveStore, .copyStore,
        ]
        guard let verb = all.first(where: { $0.words == [word] }) else { return nil }
        self = verb
    }

    private init?(_ word: String, of path: String) {
        switch word {
        case "remove": self = .remove(path)
        case "mkdir": self = .makeDirectory(path)
        case "rmdir": self = .removeDirectory(path)
        case "read": self = .read(path)
        case "visit": self = .visit(path)
        case "evict": self = .evict(path)
        case "purge": self = .purge(path)
        case "quota":
            guard path == "none" || Int(path) != nil else { return nil }
            self = .quota(bytes: Int(path))
        case "lack":
            guard let part = StorePart(rawValue: path) else { return nil }
            self = .lack(part)
        case "think":
            guard let milliseconds = Int(path) else { return nil }
            self = .think(milliseconds: milliseconds)
        case "clock":
            guard let ahead = Int(path) else { return nil }
            self = .clock(ahead: ahead)
        case "sleep":
            guard let days = Int(path) else { return nil }
            self = .sleep(days: days)
        case "pin": self = .pin(path)
        case "unpin": self = .unpin(path)
        case "line":
            guard let line = Line(rawValue: path) else { return nil }
            self = .line(line)
        default: return nil
        }
    }

    private init?(_ word: String, _ path: String, _ other: String) {
        switch word {
        case "rename": self = .rename(path, other)
        case "exchange": self = .exchange(path, other)
        case "symlink": self = .symlink(path, target: other)
        case "link": self = .link(path, other)
        case "wait": self = .wait(path, durability: other)
        case "hold", "restore", "rewind", "transact", "date":
            guard let number = Int(other) else { return nil }
            switch word {
            case "hold": self = .hold(path, milliseconds: number)
            case "date": self = .date(path, seconds: number)
            case "restore": self = .restore(path, back: number)
            case "rewind": self = .rewind(path, seconds: number)
            default: self = .transact(path, rows: number)
            }
        default: return nil
        }
    }

    private init?(long words: [String]) {
        guard words.count > 3, let size = Int(words[3]) else { return nil }
        switch (words[0], words.count) {
        case ("save", 5):
            guard let way = SavePattern.allCases.first(where: { "\($0)" == words[2] }),
                ["synced", "unsynced"].contains(words[4])
            else { return nil }
            self = .save(words[1], way, size: size, synced: words[4] == "synced")
        case ("save-as", 5):
            guard let user = User(rawValue: words[2]), let mode = UInt16(words[4], radix: 8)
            else { return nil }
            self = .saveAs(user, words[1], size: size, mode: mode)
        case ("package", 4):
            guard let way = PackageWay(rawValue: words[2]) else { return nil }
            self = .package(words[1], way, size: size)
        case ("change", 4):
            guard let way = InPlace(rawValue: words[2]) else { return nil }
            self = .change(words[1], way, size: size)
        default: return nil
        }
    }
}
