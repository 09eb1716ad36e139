import Model

/// The result of `past`: the steps that would restore the documents at or below a path to their
/// state at a time.
package struct RewindReport: Codable, Hashable, Sendable {
    package var steps: [Step]

    package struct Step: Codable, Hashable, Sendable {
        package var path: RawText
        package var id: String
        /// One of: changed (the document now has other contents), deleted (it was deleted since),
        /// newer (it did not exist).
        package var kind: String
        /// The version that it had; left out for a newer document.
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
