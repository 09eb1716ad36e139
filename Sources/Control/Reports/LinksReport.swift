import Model

/// The result of `links` and `link`: links to documents for people without an account.
package struct LinksReport: Codable, Hashable, Sendable {
    package struct Link: Codable, Hashable, Sendable {
        package var id: String
        /// The document's path in the volume, as the hub knows it.
        package var path: String
        /// The user who made it.
        package var maker: String
        /// Whether its visitors may save new versions.
        package var edits: Bool
        /// Whether they must enter a password.
        package var password: Bool
        package var made: Int64
        /// When it ends, and when it was used last.
        package var ends: Int64?
        package var used: Int64?
        package var ended: Bool
        /// Whether the document is deleted.
        package var deleted: Bool

        package init(
            id: String, path: String, maker: String, edits: Bool, password: Bool, made: Int64,
            ends: Int64?, used: Int64?, ended: Bool, deleted: Bool
        ) {
            (self.id, self.path, self.maker) = (id, path, maker)
            (self.edits, self.password) = (edits, password)
            (self.made, self.ends, self.used) = (made, ends, used)
            (self.ended, self.deleted) = (ended, deleted)
        }
    }

    package var links: [Link]
    /// The address of a link that was just made. It cannot be asked for again.
    package var address: String?

    package init(links: [Link]) { self.links = links }
}
