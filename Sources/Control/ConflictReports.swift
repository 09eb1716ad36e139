import Model

/// `conflicts`: the documents at or below a path that have unsettled versions, sorted by path.
package struct ConflictsReport: Codable, Hashable, Sendable {
    package var documents: [Document]

    package struct Document: Codable, Hashable, Sendable {
        package var path: RawText
        package var id: String
        package var package: Bool
        /// What the name shows; left out while that is not recorded.
        package var current: VersionReport?
        /// Oldest first.
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
        /// The number of the version that it and the current one come from; left out where this
        /// device does not know.
        package var base: Int?

        package init(_ version: VersionReport, base: Int?) {
            self.version = version
            self.base = base
        }
    }

    package init(documents: [Document]) { self.documents = documents }
}

/// `resolve`: what was decided.
package struct ResolutionReport: Codable, Hashable, Sendable {
    /// The number of the version that is current now.
    package var current: Int?
    /// The numbers of the versions that are settled, or of those that are open again.
    package var settled: [Int]

    package init(current: Int?, settled: [Int]) {
        self.current = current
        self.settled = settled
    }
}

/// `add`: the version that was added.
package struct AdditionReport: Codable, Hashable, Sendable {
    package var id: String

    package init(id: String) { self.id = id }
}

/// `merge`: what came of merging, or would.
package struct MergeReport: Codable, Hashable, Sendable {
    /// With `explain`: clean, conflict, unmergeable, ask. Left out else.
    package var outcome: String?
    /// Why it comes out as it does; of what is left, why.
    package var sentences: [String]
    /// The merged text of one that is clean, with `explain`: base64, of at most 64 KiB.
    package var text: String?
    /// The number of the version that is current now.
    package var current: Int?
    /// The numbers of the versions that are settled by it.
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
