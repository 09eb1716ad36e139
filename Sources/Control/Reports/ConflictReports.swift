import Model

/// The result of `conflicts`: the documents at or below a path that have conflict versions, sorted
/// by path.
package struct ConflictsReport: Codable, Hashable, Sendable {
    package var documents: [Document]

    package struct Document: Codable, Hashable, Sendable {
        package var path: RawText
        package var id: String
        package var package: Bool
        /// The version that the name shows; left out if it has not been recorded yet.
        package var current: VersionReport?
        /// The conflict versions, oldest first.
        package var conflicts: [Conflict]

        package init(
            path: RawText, id: String, package: Bool, current: VersionReport?,
            conflicts: [Conflict]
        ) {
            self.path = path
            self.id = id
            self.package = package
            self.current = current
            self.conflicts = conflicts
        }
    }

    package struct Conflict: Codable, Hashable, Sendable {
        package var version: VersionReport
        /// The number of the common ancestor of this version and the current one; left out if this
        /// device does not know it.
        package var base: Int?

        package init(_ version: VersionReport, base: Int?) {
            self.version = version
            self.base = base
        }
    }

    package init(documents: [Document]) { self.documents = documents }
}

/// The result of `resolve`.
package struct ResolutionReport: Codable, Hashable, Sendable {
    /// The number of the version that is now current.
    package var current: Int?
    /// The numbers of the settled versions; after `undo`, of those that are in conflict again.
    package var settled: [Int]

    package init(current: Int?, settled: [Int]) {
        self.current = current
        self.settled = settled
    }
}

/// The result of `add`: the id of the added version.
package struct AdditionReport: Codable, Hashable, Sendable {
    package var id: String

    package init(id: String) { self.id = id }
}

/// The result of `merge`: what was merged, or with `explain` what would be.
package struct MergeReport: Codable, Hashable, Sendable {
    /// With `explain`: clean, conflict, unmergeable or ask; otherwise left out.
    package var outcome: String?
    /// Why the result is as it is, and why versions were not merged.
    package var sentences: [String]
    /// With `explain`: the merged text if it is clean and has at most 64 KiB, in base64.
    package var text: String?
    /// The number of the version that is now current.
    package var current: Int?
    /// The numbers of the versions that the merge settled.
    package var settled: [Int]

    package init(
        outcome: String? = nil, sentences: [String], text: String? = nil, current: Int? = nil,
        settled: [Int] = []
    ) {
        self.outcome = outcome
        self.sentences = sentences
        self.text = text
        self.current = current
        self.settled = settled
    }
}
