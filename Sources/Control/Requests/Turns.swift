import Model

// The fields of requests and events about claims and presenters. `Turns.md` describes the protocol.

/// One item of a claim, and how it is accessed.
package struct AccessField: Codable, Hashable, Sendable {
    package var path: RawText
    /// The options of a read access; left out for a write access.
    package var read: [ReadingOption]?
    /// The kind of a write access; left out for a read access.
    package var write: WritingOption?

    package enum ReadingOption: String, Codable, Hashable, Sendable, CaseIterable {
        case withoutChanges, resolvesSymbolicLink, immediatelyAvailableMetadataOnly, forUploading
    }

    package enum WritingOption: String, Codable, Hashable, Sendable, CaseIterable {
        case update, merging, contentIndependentMetadataOnly, moving, deleting, replacing
    }

    package init(reading path: [Name], _ options: [ReadingOption] = []) {
        self.path = RawText(path: path)
        read = options
    }

    package init(writing path: [Name], _ option: WritingOption = .update) {
        self.path = RawText(path: path)
        write = option
    }
}

/// The result of `claim`: the claim is granted, and the contents of its items are on this device.
package struct GrantReport: Codable, Hashable, Sendable {
    package var paths: [RawText]
    package init(paths: [RawText]) { self.paths = paths }
}

/// A line that the daemon sends without a request; it has no `id`.
package struct Push: Codable, Hashable, Sendable {
    package var message: PresenterMessage?
    package var event: WatchEvent?

    package init(message: PresenterMessage) { self.message = message }
    package init(event: WatchEvent) { self.event = event }
}

/// A message to a presenter.
package struct PresenterMessage: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case relinquishToReader, relinquishToWriter, save, accommodateDeletion,
            accommodateSubitemDeletion, accommodateEviction, reacquire
        case changed, moved, ubiquityChanged, subitemAppeared, subitemChanged, subitemMoved
        case versionGained, versionLost, versionResolved
        case subitemVersionGained, subitemVersionLost, subitemVersionResolved

        /// Whether the daemon waits for an `answer`.
        package var isAsking: Bool {
            switch self {
            case .relinquishToReader, .relinquishToWriter, .save, .accommodateDeletion,
                .accommodateSubitemDeletion, .accommodateEviction:
                true
            default: false
            }
        }
    }

    /// The presenter's number on this connection.
    package var presenter: Int
    package var kind: Kind
    /// The number of the claim that caused the message. All messages that ask have it, and
    /// `reacquire`.
    package var turn: Int?
    /// The path of the item, if it is not the presented one; for a moved item, its old path.
    package var path: RawText?
    /// The item's new path, for `moved` and `subitemMoved`.
    package var to: RawText?
    /// A version's id.
    package var version: String?
    /// For `accommodateDeletion`: a system call is deleting the item, and nothing can be done in
    /// its directory until the presenter answers. Unsaved changes can be kept afterwards (`add`).
    package var plain: Bool?

    package init(presenter: Int, kind: Kind) {
        self.presenter = presenter
        self.kind = kind
    }
}

/// An event of a document, for `watch`.
package struct WatchEvent: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case appeared, changed, moved, removed, claimed, waiting, released, presented, retired
        /// The document has a conflict version.
        case conflict
        /// The volume was signed in to a hub or out of it. `token` is its present identity.
        case identity
        /// Where the document's contents are has changed, or a transfer has begun or ended. The
        /// path of the root stands for any documents.
        case contents
        /// Somebody has opened the document on another device (`user`, `device`), or has closed it
        /// there.
        case openedElsewhere, closedElsewhere
        /// A program has opened the document for writing although somebody edits it on another
        /// device (`user`, `device`).
        case openedAnyway
    }

    package var kind: Kind
    package var path: RawText
    package var to: RawText?
    /// For `identity`: the token, as the verb `identity` returns it; left out if the volume is
    /// signed out.
    package var token: String?
    /// For `openedElsewhere`, `closedElsewhere` and `openedAnyway`: the account, the name of the
    /// device, and `edits`, `wants` or `shows`.
    package var user: String?
    package var device: String?
    package var use: String?
    /// Nanoseconds since 1970.
    package var time: Int64
    /// The process that caused the event; 0 if it is not known.
    package var process: Int32
    package var program: String

    package init(_ kind: Kind, path: RawText, time: Int64, process: Int32, program: String) {
        self.kind = kind
        self.path = path
        self.time = time
        self.process = process
        self.program = program
    }
}

/// The result of `locks`.
package struct LocksReport: Codable, Hashable, Sendable {
    package struct Turn: Codable, Hashable, Sendable {
        package enum State: String, Codable, Hashable, Sendable {
            /// The claim waits for other claims.
            case waiting
            /// The claim waits for answers of presenters.
            case asking
            case granted
        }

        package enum Kind: String, Codable, Hashable, Sendable {
            /// A claim by the library or by `fsctl coordinate`.
            case claim
            /// An implicit lease: a program that uses no claims has the file open, or waits to open
            /// it.
            case plain
            /// A presenter of the item.
            case presenter
        }

        package var kind: Kind
        package var state: State
        /// `read`, or the kind of write access; empty for a presenter.
        package var access: String
        package var path: RawText
        package var process: Int32
        package var program: String
        /// Nanoseconds since 1970.
        package var since: Int64
        /// The processes for which it waits, each with the reason.
        package var behind: [Behind]

        package init(
            kind: Kind, state: State, access: String, path: RawText, process: Int32,
            program: String, since: Int64, behind: [Behind] = []
        ) {
            self.kind = kind
            self.state = state
            self.access = access
            self.path = path
            self.process = process
            self.program = program
            self.since = since
            self.behind = behind
        }
    }

    package struct Behind: Codable, Hashable, Sendable {
        package var process: Int32
        package var program: String
        /// The reason, such as `holds a claim` or `was asked to relinquish`.
        package var why: String

        package init(process: Int32, program: String, why: String) {
            self.process = process
            self.program = program
            self.why = why
        }
    }

    package var turns: [Turn]
    /// Who has documents there open on other devices; left out if nobody is known to.
    package var elsewhere: [WhoReport.Lease]?
    package init(turns: [Turn]) { self.turns = turns }
}
