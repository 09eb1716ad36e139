import Model

/// `past`: what would make the documents at or below a path what they were at a time.
package struct RewindReport: Codable, Hashable, Sendable {
    package var steps: [Step]

    package struct Step: Codable, Hashable, Sendable {
        package var path: RawText
        package var id: String
        /// changed: it shows other contents now; deleted: it has been deleted since; newer: it was
        /// not there.
        package var kind: String
        /// What it showed; left out for a newer one.
        package var version: VersionReport?

        package init(path: RawText, id: String, kind: String, version: VersionReport?) {
            self.path = path
            self.id = id
            self.kind = kind
            self.version = version
        }
    }

    package init(steps: [Step]) { self.steps = steps }
}
