import Model

/// What was recovered from a damaged journal.
package struct Salvage: Sendable {
    package struct Rows: Hashable, Sendable {
        /// Rows of the new journal that were read completely.
        package var kept = 0
        /// Rows of the new journal that were reconstructed from indexes and other tables.
        package var rebuilt = 0
        /// Rows that are known to be lost; nil when it is unknown whether and how many.
        package var lost: Int? = 0
    }

    package var items = Rows()
    package var versions = Rows()
    package var manifests = Rows()
    package var chunks = Rows()
    package var stash = Rows()
    package var meta = Rows()
    /// The values of `volume` and `device` in meta. Nil when they are lost; then the caller makes
    /// new ones.
    package var volume: String?
    package var device: String?
    /// The number of items whose directory was lost. They are now in `recovered` in the root.
    package var orphans = 0
    /// The number of documents whose item was lost. They are now deleted documents of the root.
    package var documents = 0
    /// A sentence about what is wrong with the log.
    package var logProblem: String?

    /// False when places of chunks may be missing, so that the packs have to be scanned again.
    package var isIndexComplete: Bool { chunks.lost == 0 }

    /// Whether the new journal has everything that the damaged one had.
    package var isWhole: Bool {
        let rows = [items, versions, manifests, chunks, stash, meta]
        return rows.allSatisfy { $0.rebuilt == 0 && $0.lost == 0 } && orphans + documents == 0
            && logProblem == nil
    }
}

extension Salvage {
    /// Sentences for people: what was kept, what was lost, and where to look.
    package var sentences: [String] {
        guard !isWhole else {
            return ["The journal was damaged, but nothing that it held was lost."]
        }
        var sentences = [
            Self.sentence("item", "items", items), Self.sentence("version", "versions", versions),
            Self.sentence("list of chunks", "lists of chunks", manifests),
            Self.sentence("stash entry", "stash entries", stash),
            Self.sentence("setting of the store", "settings of the store", meta),
        ].compactMap(\.self)
        if !isIndexComplete {
            sentences.append(
                "Places of chunks may be lost: the packs must be scanned again.")
        }
        if volume == nil || device == nil {
            sentences.append("The id of the volume or of this device was lost: it gets a new one.")
        }
        if orphans > 0 {
            sentences.append(
                "The directory of \(orphans) items was lost: look for them in the directory "
                    + "`recovered`, unless the working tree shows them at another place.")
        }
        if documents > 0 {
            sentences.append(
                "\(documents) documents lost their place: `fsctl versions --deleted` lists their "
                    + "versions for the top directory.")
        }
        if let logProblem { sentences.append(logProblem) }
        return sentences
    }

    private static func sentence(_ one: String, _ many: String, _ rows: Rows) -> String? {
        func counted(_ count: Int) -> String {
            count == 1 ? "1 \(one)" : "\(count) \(many)"
        }
        guard rows.rebuilt > 0 || rows.lost != 0 else { return nil }
        var text = "\(counted(rows.kept)) kept completely"
        if rows.rebuilt > 0 { text += ", \(rows.rebuilt) partly" }
        switch rows.lost {
        case 0: break
        case let lost?: text += ", \(lost) lost"
        case nil: text += "; the number of lost ones is unknown"
        }
        return text + "."
    }
}
