import Model

/// The result of `sessions`: what the programs of one session did, oldest first.
package struct SessionsReport: Codable, Hashable, Sendable {
    /// The whole name of the session.
    package var session: String
    package var acts: [Act]

    package struct Act: Codable, Hashable, Sendable {
        /// One of: saved, deleted, moved.
        package var kind: String
        package var time: Int64
        /// Where the document is now, or was last. For what was moved or deleted, where it was
        /// before.
        package var path: RawText
        /// Where the item was moved.
        package var to: RawText?
        /// The number of the version that was saved.
        package var number: Int?
        package var person: String
        package var program: String

        package init(
            kind: String, time: Int64, path: RawText, to: RawText?, number: Int?, person: String,
            program: String
        ) {
            self.kind = kind
            self.time = time
            self.path = path
            self.to = to
            self.number = number
            self.person = person
            self.program = program
        }
    }

    package init(session: String, acts: [Act]) {
        self.session = session
        self.acts = acts
    }
}

/// The result of `revert`: what came of taking one session's edits out of a document.
package struct RevertReport: Codable, Hashable, Sendable {
    /// One of: changed (it shows what it showed before); merged (it shows what others saved,
    /// without the session's edits); conflict (it shows what it showed, and what it was before the
    /// session is in conflict with that); nothing.
    package var outcome: String
    /// Why it is a conflict.
    package var reason: String?
    /// The current version's number.
    package var current: Int?

    package init(outcome: String, reason: String? = nil, current: Int? = nil) {
        self.outcome = outcome
        self.reason = reason
        self.current = current
    }
}
