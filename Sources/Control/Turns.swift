import Model

// What a request and an event say of turns. Turns.md has the whole conversation.

/// One item that a claim is about.
package struct AccessField: Codable, Hashable, Sendable {
    package var path: RawText
    /// For reading, with these options; left out for writing.
    package var read: [ReadingOption]?
    /// For writing, in this way; left out for reading.
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

/// The result of `claim`: the items have their turns, and are here.
package struct GrantReport: Codable, Hashable, Sendable {
    package var paths: [RawText]
    package init(paths: [RawText]) { self.paths = paths }
}

/// A line that the daemon sends of its own accord; it has no `id`.
package struct Push: Codable, Hashable, Sendable {
    package var message: PresenterMessage?
    package var event: WatchEvent?

    package init(message: PresenterMessage) { self.message = message }
    package init(event: WatchEvent) { self.event = event }
}

/// What a presenter is told.
package struct PresenterMessage: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case relinquishToReader, relinquishToWriter, save, accommodateDeletion,
            accommodateSubitemDeletion, reacquire
        case changed, moved, subitemAppeared, subitemChanged, subitemMoved
        case versionGained, versionLost, versionResolved
        case subitemVersionGained, subitemVersionLost, subitemVersionResolved

        /// Whether somebody waits for an `answer`.
        package var isAsking: Bool {
            switch self {
            case .relinquishToReader, .relinquishToWriter, .save, .accommodateDeletion,
                .accommodateSubitemDeletion:
                true
            default: false
            }
        }
    }

    /// As it was registered on this connection.
    package var presenter: Int
    package var kind: Kind
    /// Which of others' turns it is about: in all that asks, and in `reacquire`.
    package var turn: Int?
    /// Of the item it is about, where that is not the presented one; where a moved one was.
    package var path: RawText?
    /// Where the item is now, in `moved` and `subitemMoved`.
    package var to: RawText?
    /// A version's id.
    package var version: String?
    /// Of `accommodateDeletion`: a system call deletes it, during which nothing can be done to the
    /// directory. What is unsaved can be kept afterwards (`add`).
    package var plain: Bool?

    package init(presenter: Int, kind: Kind) {
        self.presenter = presenter
        self.kind = kind
    }
}

/// Something that happened to a document, for `watch`.
package struct WatchEvent: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case appeared, changed, moved, removed, claimed, waiting, released, presented, retired
        /// A version of the document is in conflict with the current one.
        case conflict
        /// The volume was signed in to a hub or out of it: `token` is its identity now.
        case identity
    }

    package var kind: Kind
    package var path: RawText
    package var to: RawText?
    /// Of `identity`, as the verb `identity` answers it; left out when signed out.
    package var token: String?
    /// Nanoseconds since 1970.
    package var time: Int64
    /// Whose doing it was; 0 where nobody knows.
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
            /// Behind others.
            case waiting
            /// For presenters to answer.
            case asking
            case granted
        }

        package enum Kind: String, Codable, Hashable, Sendable {
            /// By the library or `fsctl coordinate`.
            case claim
            /// A program that knows of no turns has the file open, or wants it.
            case plain
            /// Shows the item, and is told of others' accesses.
            case presenter
        }

        package var kind: Kind
        package var state: State
        /// `read`, or the way of writing; for a presenter, nothing.
        package var access: String
        package var path: RawText
        package var process: Int32
        package var program: String
        /// Nanoseconds since 1970.
        package var since: Int64
        /// What it waits for: processes, and a word on each.
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
        /// `holds a claim`, `is before it in the queue`, `was asked to relinquish`, …
        package var why: String

        package init(process: Int32, program: String, why: String) {
            self.process = process
            self.program = program
            self.why = why
        }
    }

    package var turns: [Turn]
    package init(turns: [Turn]) { self.turns = turns }
}
