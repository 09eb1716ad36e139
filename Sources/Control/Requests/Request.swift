import Model

/// The verbs of the control socket. `Protocol.md` describes their fields and results.
package enum Verb: String, Sendable, CaseIterable {
    case status, versions, contents, extract, name, forget, purge, add
    case wait, doctor, statistics, stop
    // MARK: The hub
    case signin, signout, identity, devices, revoke, offline, online, brake, activity, limit
    case members, member, volumes, who, links, link
    // MARK: Conflicts
    case conflicts, resolve, merge, past, revert, sessions
    // MARK: Contents
    case download, evict, pin, unpin, pins
    // MARK: Claims and presenters
    case claim, release, cancel, prepare, moved, present, retire, answer, locks, watch

    /// Whether the verb is about claims and presenters. Such requests are answered when the answer
    /// is known, not in order.
    package var isCoordination: Bool {
        switch self {
        case .claim, .release, .cancel, .prepare, .moved, .present, .retire, .answer, .locks,
            .watch:
            true
        default: false
        }
    }

    /// Which users may use a verb if all users may connect to the socket.
    package enum Reach: Sendable { case everyone, reader, writer, owner }

    package func reach(of request: Request) -> Reach {
        switch self {
        // A document that is named by its id may be in a place that the client may not read.
        case .status where request.document != nil: .owner
        case .status where request.path == nil: .everyone
        case .versions where request.document != nil, .contents where request.document != nil:
            .owner
        case .status, .versions, .contents, .wait, .conflicts, .past, .sessions, .pins:
            .reader
        case .who: request.path == nil ? .owner : .reader
        case .merge, .revert: request.explain == true ? .reader : .writer
        case .name, .forget, .purge, .add, .resolve, .evict, .pin, .unpin: .writer
        case .identity: .everyone
        case .download: .reader
        case .signin, .signout, .devices, .revoke, .offline, .online, .brake, .activity, .limit,
            .members, .member, .volumes, .links, .link:
            .owner
        case .extract, .doctor, .statistics, .stop: .owner
        // Each access of a claim is checked separately; the other verbs name claims and presenters
        // that were checked before.
        case .claim, .release, .cancel, .prepare, .retire, .answer: .everyone
        case .moved: .writer
        case .present: .reader
        case .locks, .watch: request.path == nil ? .owner : .reader
        }
    }
}

/// One line from a program to the daemon.
package struct Request: Codable, Hashable, Sendable {
    /// A number that the client chooses; each line of the answer contains it.
    package var id: Int
    /// The name of a `Verb`. It is text, because a newer client may send an unknown verb.
    package var verb: String
    /// The path from the volume's root, without a leading `/`; the root's path is empty.
    package var path: RawText?
    /// The id of a document that may have no path any more.
    package var document: String?
    /// The path of the contents of a new version.
    package var from: RawText?
    /// For `add`: the size, seconds and nanoseconds of the contents that the document's present
    /// contents were made from, by a program that had not seen those at `from`.
    package var base: String?
    /// For `add`: the contents are a conflict version, and nobody knows what it was made from.
    package var conflict: Bool?
    /// The number of a version.
    package var number: Int?
    package var label: String?
    package var durability: String?
    package var timeoutSeconds: Double?
    /// Requests the deleted documents of the directory at `path`.
    package var deleted: Bool?
    /// For `versions`: also requests deleted documents that once had the name.
    package var earlier: Bool?
    package var repair: Bool?
    /// The conflict versions to settle; all if it is left out.
    package var numbers: [Int]?
    /// For `versions`: requests for each version whether all of its contents are on this device.
    /// For `status`: answers without asking the hub.
    package var local: Bool?
    /// For `status`: requests the states of what is in the directory.
    package var entries: Bool?
    /// For `watch`: also requests events of kind `contents`.
    package var contents: Bool?
    /// Nanoseconds since 1970.
    package var time: Int64?
    /// The number of bytes to free.
    package var bytes: Int64?
    /// Only reports what would happen.
    package var explain: Bool?
    /// Undoes the last settlement.
    package var undo: Bool?
    /// The program's name, as versions show it.
    package var program: String?
    /// The session whose work is asked for, or is to be undone.
    package var session: String?
    /// A person whose work that is; left out if it may be anybody's.
    package var person: String?
    /// The index of an entry in a version's contents, from 0; for `contents`, the first entry to
    /// return.
    package var entry: Int?
    /// The offset in bytes.
    package var offset: Int64?
    /// The length in bytes; an answer has at most `Limits.pieceBytesMax`.
    package var length: Int?

    // MARK: The hub

    /// The hub's address, `http://…` or `https://…`.
    package var address: String?
    /// The code of `concord hub invite`.
    package var code: String?
    package var deviceName: String?
    package var volumeName: String?
    /// The user who owns the volume, if that is not the user of the code.
    package var owner: String?
    /// The path of a file with trusted certificates.
    package var certificate: String?
    /// The fingerprint that the hub's certificate must have.
    package var fingerprint: String?
    /// Allows an unencrypted connection over a network.
    package var insecure: Bool?
    package var device: String?
    /// The user who is, or will be, a member.
    package var user: String?
    /// What is done with the member: add, role or remove; or with the link: make or revoke.
    package var change: String?
    /// The id of a link.
    package var link: String?
    /// Whether visitors of the new link may save new versions.
    package var edits: Bool?
    /// What visitors of the new link must enter.
    package var password: String?
    /// editor or reader; left out to remove the member.
    package var role: String?
    /// Proceeds although something exists only on this device, or although the document is pinned.
    package var force: Bool?
    /// For `pins`: also counts what is still to be downloaded, which takes longer.
    package var missing: Bool?
    /// Confirms a mass deletion that is held back.
    package var release: Bool?
    /// The limits in bytes per second; 0 means no limit.
    package var upload: Int?
    package var download: Int?

    // MARK: Claims and presenters

    /// The claim's number, which the client chooses for its connection.
    package var claim: Int?
    package var access: [AccessField]?
    package var purposes: [String]?
    package var presenters: [Int]?
    package var `try`: Bool?
    /// The claim holds on all devices of the volume.
    package var everywhere: Bool?
    /// The process on whose behalf the request is made, which must be an ancestor of the client.
    package var process: Int32?
    /// The presenter's number, which the client chooses for its connection.
    package var presenter: Int?
    /// The kinds of messages that a presenter handles.
    package var hears: [String]?
    /// The number of another program's claim for which a presenter was asked to make room.
    package var turn: Int?
    /// Why a presenter could not do what it was asked.
    package var failure: String?
    /// The new path of a moved item.
    package var to: RawText?

    package init(_ verb: Verb, id: Int = 0, path: [Name]? = nil, document: Identifier? = nil) {
        self.id = id
        self.verb = verb.rawValue
        self.path = path.map(RawText.init(path:))
        self.document = document?.description
    }
}

// The checked values of a request's fields. The errors say which field is missing or invalid.
extension Request {
    package func known() throws(VolumeError) -> Verb {
        if let verb = Verb(rawValue: verb) { return verb }
        let all = Verb.allCases.map(\.rawValue).joined(separator: ", ")
        throw VolumeError(.invalid, "there is no verb \"\(verb)\"; this daemon knows \(all)")
    }

    package var isCoordination: Bool { Verb(rawValue: verb)?.isCoordination ?? false }

    package func components() throws(VolumeError) -> [Name] {
        guard let path else { throw missing("path") }
        return try components(of: path)
    }

    package func components(of path: RawText) throws(VolumeError) -> [Name] {
        guard let names = path.path else {
            throw VolumeError(
                .invalid,
                "\"\(path.text)\" is not a path inside a volume: it must start without / and have "
                    + "no empty, . or .. component"
            )
        }
        guard names.count <= Limits.namesMax else {
            throw VolumeError(
                .invalid,
                "the path has \(names.count) names; at most \(Limits.namesMax) are accepted")
        }
        return names
    }

    /// Returns the id of the document; nil if the request names it by its path.
    package func identifier() throws(VolumeError) -> Identifier? {
        guard let document else { return nil }
        guard let id = Identifier(document) else {
            throw VolumeError(
                .invalid, "\"\(document)\" is not a document's id, which has 32 hexadecimal digits")
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
