import Model

/// The result of `past`: the steps that would restore the documents at or below a path to their
/// state at a time.
package struct RewindReport: Codable, Hashable, Sendable {
    package var steps: [Step]
    /// The whole name of the session that the steps undo; left out when they restore a time.
    package var session: String?

    package struct Step: Codable, Hashable, Sendable {
        package var path: RawText
        package var id: String
        /// One of: changed (the document now has other contents), deleted (it was deleted since),
        /// newer (it did not exist). When a session is undone, one of: changed; merged (others have
        /// saved since, so the verb `revert` merges); resolved (its conflict versions are
        /// resolved); created (it is to be deleted); deleted (it comes back); moved (it goes back
        /// to `origin`); kept (it stays, for the `reason`).
        package var kind: String
        /// The version that it had; left out for a newer document.
        package var version: VersionReport?
        /// Where an item was before the session moved it.
        package var origin: RawText?
        /// Why it stays as it is.
        package var reason: String?

        package init(path: RawText, id: String, kind: String, version: VersionReport?) {
            self.path = path
            self.id = id
            self.kind = kind
            self.version = version
        }
    }

    package init(steps: [Step]) { self.steps = steps }
}
