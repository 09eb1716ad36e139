import Foundation

/// One line of JSON that says what an actor did, what it was told, or what it was seen to have. The
/// checker knows nothing else of a run, so it can judge the histories of other load generators,
/// too.
struct Event: Codable, Hashable, Sendable {
    enum Kind: String, Codable, Sendable {
        /// A program begins `verb`; `content` is what it will write.
        case began
        /// The program has ended: `outcome` is `ok` or the name of the error, `content` is what the
        /// document now has or what was read, and `base` is what it had when the program looked
        /// before.
        case did
        /// The state that was found after a failure caused by a fault.
        case observed
        /// `path` with `content` was promised to be durable (`detail`: disk or hub).
        case promised
        /// A fault that concerns `actor`; `detail` describes it.
        case fault
        /// A process ended unexpectedly, or a program did not return from a call.
        case died, hung
        /// Everything is synchronised (`detail`: the problems that the device reports), or was not
        /// in time; then `detail` says what is missing.
        case settled, unsettled
        /// After settling: what is at a path of a device (`detail`: the kind and the mode), and
        /// each version of each document there (`detail`: current, history or conflict).
        case item, version
        /// A user (`detail`) could read `content` on the device, in the way that `verb` says, or
        /// was told that `version`, or the version `number` of `document`, exists.
        case readBy
        /// The state of an earlier round at a later time.
        case left
        /// A tool of the product examined something: `outcome` is `ok`, or `detail` says what it
        /// found.
        case examined
    }

    var kind: Kind
    /// Milliseconds since the start of the run.
    var at = 0
    var round = 0
    var actor: String
    var action: Int?
    var verb: [String]?
    var path: String?
    var content: String?
    /// The writers of the content, for people: `dev0.17+dev1.20`, with `…` if it is incomplete.
    var writers: String?
    var base: String?
    var outcome: String?
    var detail: String?
    /// The ids of the document and of the version, and the version's number on the device.
    var document: String?
    var version: String?
    var number: Int?
    var parents: [String]?
    /// The rows that a program adds to a database, or that were found in one.
    var rows: [String]?

    init(_ kind: Kind, _ actor: String) { (self.kind, self.actor) = (kind, actor) }

    var isOK: Bool { outcome == "ok" }

    func isRollBack(of actor: String) -> Bool {
        kind == .fault && self.actor == actor && verb == ["roll-back"]
    }

    /// Whether the device continues from an older state: its store was rolled back, or lost what
    /// was not synced.
    func losesState(of actor: String) -> Bool {
        let isPowerLoss = kind == .fault && self.actor == actor && verb == ["lose-power"]
        return isPowerLoss || isRollBack(of: actor)
    }

    func setsClock(of actor: String) -> Bool {
        isSleep || kind == .fault && self.actor == actor && verb?.first == "clock"
    }

    /// Whether all devices were off for days, so that retention may remove what is older.
    var isSleep: Bool { kind == .fault && verb?.first == "sleep" }

    /// Whether contents that a device relies on a hub for may be gone: the hub is replaced by an
    /// older copy of it, or is another one, which exists only for a while.
    var mayTakeContentsFromHub: Bool {
        isRollBack(of: "hub") || kind == .fault && verb == ["sign-in-elsewhere"]
    }

    /// Whether items that the device has removed may come back: a restored hub infers no deletion,
    /// a device that signs in again joins its tree with the hub's, also one that was at another
    /// hub, and a copy of a device continues with what the device had begun.
    func mayReturnItems(to device: String) -> Bool {
        guard kind == .fault, let word = verb?.first else { return false }
        if word == "sign-in-elsewhere" || isRollBack(of: "hub") { return true }
        return actor == device && ["sign-out", "copy-store"].contains(word)
    }

    init(fault verb: Verb, _ actor: String) {
        self.init(.fault, actor)
        self.verb = verb.words
        detail = verb.words.joined(separator: " ")
    }

    var line: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return ((try? encoder.encode(self)) ?? Data()) + Data("\n".utf8)
    }

    static func all(in history: Data) throws -> [Event] {
        let decoder = JSONDecoder()
        return try history.split(separator: UInt8(ascii: "\n")).map {
            try decoder.decode(Event.self, from: Data($0))
        }
    }
}

/// A broken promise that a history shows.
struct Violation: Hashable, Sendable, CustomStringConvertible {
    enum Kind: String, Sendable, CaseIterable {
        /// A closed content is in no version and in no file of the device that saved it.
        case lost
        /// A closed content is only history, although what is there now was not made from it.
        case replaced
        /// The contents of a file or of a version that a device shows cannot be read.
        case unreadable
        /// Bytes that no program wrote, or a part of what one wrote.
        case invented
        /// A conflict between two contents of which one was made from the other, or an alternative
        /// name where only one device worked.
        case conflict
        /// A tree differs from what the only device that worked there made, or the trees of two
        /// devices differ.
        case tree
        /// A program got an error without a cause, or a wrong answer.
        case told
        /// A user read what another user saved privately.
        case leaked
        case died, hung, unsettled, unsound
        /// The state of an earlier round has changed.
        case changed
    }

    let kind: Kind
    let round: Int
    let subject: String
    let message: String

    var description: String { "\(kind) (round \(round)): \(subject): \(message)" }
}

extension String {
    /// The path without the marks that devices add to a name which another item has, such as
    /// ` (dev2 2026-11-25 04.49.38)`.
    var unmarked: String {
        replacing(#/ \(dev\d+( \(copy\))* [-0-9. ]*\)/#, with: "")
    }
}

extension [Event] {
    /// Returns whether the files of a package are from several saves, and a fault interrupted the
    /// programs: half of a save is then recorded, and the files of the other half have versions.
    func explainMixture(_ event: Event) -> Bool {
        guard let path = event.path, Package.isNamed(path), event.writers?.contains("/") == true
        else { return false }
        // All devices are killed before they sleep.
        return contains {
            $0.kind == .fault && [Checker.owner(of: path), "all"].contains($0.actor)
        }
    }
}
