import Foundation

/// What an actor did, was told, or was seen to hold: one line of JSON. The checker knows nothing
/// else of a run, so another generator of load that writes such lines can be judged by it, too.
struct Event: Codable, Hashable, Sendable {
    enum Kind: String, Codable, Sendable {
        /// A program begins `verb`; `content` is what it is going to write.
        case began
        /// It ended: `outcome` is `ok` or the name of the error; `content` is what the document
        /// holds now, or what was read, and `base` what it held when the program looked before.
        case did
        /// Looked at after something had failed because of a fault.
        case observed
        /// `path`, which holds `content`, was said to be durable (`detail`: disk or hub).
        case promised
        /// Something was done to `actor`: `detail` says what.
        case fault
        /// A process ended that nobody had ended, or a program did not come back from a call.
        case died, hung
        /// All is in step, or could not be brought there in time: `detail` is what it waits for.
        case settled, unsettled
        /// After settling: what is at a path of a device (`detail`: the kind and the mode), and
        /// each version of each document there (`detail`: current, history or conflict).
        case item, version
        /// A later look at what an earlier round had left.
        case left
        /// A tool of the product examined something: `outcome` is `ok`, or `detail` says what.
        case examined
    }

    var kind: Kind
    /// Milliseconds since the run began.
    var at = 0
    var round = 0
    var actor: String
    var action: Int?
    var verb: [String]?
    var path: String?
    var content: String?
    /// Who wrote that, for people: `dev0.17+dev1.20`, with `…` when it is not whole.
    var writers: String?
    var base: String?
    var outcome: String?
    var detail: String?
    /// Of a version: the document's id, and its own.
    var document: String?
    var version: String?
    var parents: [String]?

    init(_ kind: Kind, _ actor: String) { (self.kind, self.actor) = (kind, actor) }

    var isOK: Bool { outcome == "ok" }

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

/// Something that a history shows and that must not be.
struct Violation: Hashable, Sendable, CustomStringConvertible {
    enum Kind: String, Sendable, CaseIterable {
        /// A content that was closed is no version and in no file, on the device that saved it.
        case lost
        /// Bytes that no program wrote, or half of what one wrote.
        case invented
        /// A conflict between contents of which one was made from the other, or a name with a mark,
        /// where only one device ever worked.
        case conflict
        /// A tree is not what the only device that worked there made of it, or two devices differ.
        case tree
        /// A program was refused what it may do, or told something that is not so.
        case told
        case died, hung, unsettled, unsound
        /// What an earlier round left has changed.
        case changed
    }

    let kind: Kind
    let round: Int
    let subject: String
    let message: String

    var description: String { "\(kind) (round \(round)): \(subject): \(message)" }
}
