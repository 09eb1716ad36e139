import Model

/// What can be asked on the control socket. Protocol.md says which fields each takes and what it
/// answers.
package enum Verb: String, Sendable, CaseIterable {
    case status, versions, contents, extract, name, forget, purge, add
    case wait, doctor, statistics, stop
    // Of the hub.
    case signin, signout, identity, devices, revoke, offline, online, brake, activity, limit
    // Of conflicts.
    case conflicts, resolve, merge, past
    // Of contents.
    case download, evict, pin, unpin
    // Of turns.
    case claim, release, cancel, prepare, moved, present, retire, answer, locks, watch

    /// Whether it is about turns: answered when the answer is known, not in order.
    package var isOfTurns: Bool {
        switch self {
        case .claim, .release, .cancel, .prepare, .moved, .present, .retire, .answer, .locks,
            .watch:
            true
        default: false
        }
    }

    /// Whose business a verb is, where the socket is open to all users.
    package enum Reach: Sendable { case everyone, reader, writer, owner }

    package func reach(of request: Request) -> Reach {
        switch self {
        // A document known by its id alone may be one that the asker could not read.
        case .status where request.document != nil: .owner
        case .status where request.path == nil: .everyone
        case .versions where request.document != nil, .contents where request.document != nil:
            .owner
        case .status, .versions, .contents, .wait, .conflicts, .past: .reader
        case .merge: request.explain == true ? .reader : .writer
        case .name, .forget, .purge, .add, .resolve, .evict, .pin, .unpin: .writer
        case .identity: .everyone
        case .download: .reader
        case .signin, .signout, .devices, .revoke, .offline, .online, .brake, .activity, .limit:
            .owner
        case .extract, .doctor, .statistics, .stop: .owner
        // What is named in a claim is judged access by access; the others name what was judged.
        case .claim, .release, .cancel, .prepare, .retire, .answer: .everyone
        case .moved: .writer
        case .present: .reader
        case .locks, .watch: request.path == nil ? .owner : .reader
        }
    }
}

/// One line from a program to the daemon.
package struct Request: Codable, Hashable, Sendable {
    /// Chosen by the asker; every line of the answer carries it.
    package var id: Int
    /// A `Verb`; text, because a newer program may know more of them.
    package var verb: String
    /// From the volume's root, no `/` in front; the root itself is the empty text.
    package var path: RawText?
    /// A document's id, where it has no path any more.
    package var document: String?
    /// Where the contents of a new version lie.
    package var from: RawText?
    /// Of a version.
    package var number: Int?
    package var label: String?
    package var durability: String?
    package var timeoutSeconds: Double?
    /// Ask for the deleted documents of the directory at `path`.
    package var deleted: Bool?
    /// Of `versions`: tell also of deleted documents that once had the name.
    package var earlier: Bool?
    package var repair: Bool?
    /// Conflict versions to be settled; left out: all.
    package var numbers: [Int]?
    /// Of `versions`: tell of each whether all its bytes are on this device. Of `status`: what is
    /// known here is enough, the hub is not asked.
    package var local: Bool?
    /// Nanoseconds since 1970.
    package var time: Int64?
    /// How many are to be freed.
    package var bytes: Int64?
    /// Only say what would come of it.
    package var explain: Bool?
    /// Take the last settling back.
    package var undo: Bool?
    /// Who decides, as versions are to tell it.
    package var program: String?
    /// An entry of a version's contents, counted from 0; for `contents`, the first one wanted.
    package var entry: Int?
    /// Bytes.
    package var offset: Int64?
    /// Bytes; an answer holds at most `Limits.pieceBytesMax`.
    package var length: Int?

    // Of the hub.

    /// `http://…` or `https://…`.
    package var address: String?
    /// Of `concord hub invite`.
    package var code: String?
    package var deviceName: String?
    package var volumeName: String?
    /// A file of certificates to trust.
    package var certificate: String?
    /// That the hub's certificate must have.
    package var fingerprint: String?
    /// Sign in also where all can be read on the way.
    package var insecure: Bool?
    package var device: String?
    /// Although something is on this device only; although it is pinned.
    package var force: Bool?
    /// A held mass deletion is meant.
    package var release: Bool?
    /// Bytes a second; 0: as fast as it goes.
    package var upload: Int?
    package var download: Int?

    // Of turns.

    /// Chosen by the asker, for its connection.
    package var claim: Int?
    package var access: [AccessField]?
    package var purposes: [String]?
    package var presenters: [Int]?
    package var `try`: Bool?
    /// On whose behalf: an ancestor of the asker.
    package var process: Int32?
    /// Chosen by the asker, for its connection.
    package var presenter: Int?
    /// The kinds of messages that a presenter implements.
    package var hears: [String]?
    /// Somebody's turn that a presenter was asked to make room for.
    package var turn: Int?
    /// Why a presenter could not do what it was asked.
    package var failure: String?
    /// Where an item was moved.
    package var to: RawText?

    package init(_ verb: Verb, id: Int = 0, path: [Name]? = nil, document: Identifier? = nil) {
        self.id = id
        self.verb = verb.rawValue
        self.path = path.map(RawText.init(path:))
        self.document = document?.description
    }
}

// What a verb needs, or the sentence that says what is missing.
extension Request {
    package func known() throws(VolumeError) -> Verb {
        if let verb = Verb(rawValue: verb) { return verb }
        let all = Verb.allCases.map(\.rawValue).joined(separator: ", ")
        throw VolumeError(.invalid, "there is no verb \"\(verb)\"; this daemon knows \(all)")
    }

    package var isOfTurns: Bool { Verb(rawValue: verb)?.isOfTurns ?? false }

    package func components() throws(VolumeError) -> [Name] {
        guard let path else { throw missing("path") }
        return try components(of: path)
    }

    package func components(of path: RawText) throws(VolumeError) -> [Name] {
        guard let names = path.path else {
            throw VolumeError(
                .invalid,
                "\"\(path.text)\" is not a path inside a volume: it starts without /, and has "
                    + "no empty, . or .. component"
            )
        }
        return names
    }

    /// The document named by its id; nil when it is named by its path.
    package func identifier() throws(VolumeError) -> Identifier? {
        guard let document else { return nil }
        guard let id = Identifier(document) else {
            throw VolumeError(
                .invalid, "\"\(document)\" is not a document's id: 32 hexadecimal digits")
        }
        return id
    }

    package func versionNumber() throws(VolumeError) -> Int {
        guard let number else { throw missing("number") }
        return number
    }

    package func missing(_ field: String) -> VolumeError {
        VolumeError(.invalid, "\"\(verb)\" needs the field \"\(field)\"")
    }
}
