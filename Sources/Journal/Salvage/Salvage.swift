import Model

/// What was saved of a damaged journal.
package struct Salvage: Sendable {
    package struct Rows: Hashable, Sendable {
        /// Rows of the new journal that were read whole.
        package var kept = 0
        /// Rows of the new journal that were put together from indexes and what else knew of them.
        package var rebuilt = 0
        /// Rows known to be lost; nil when it cannot be told whether and how many.
        package var lost: Int? = 0
    }

    package var items = Rows()
    package var versions = Rows()
    package var manifests = Rows()
    package var chunks = Rows()
    package var stash = Rows()
    package var meta = Rows()
    /// The values under `volume` and `device` in meta; nil when lost: the caller makes new ones.
    package var volume: String?
    package var device: String?
    /// Items whose directory was lost; they are now below `recovered` in the root.
    package var orphans = 0
    /// Documents whose item was lost; they are now deleted documents of the root.
    package var documents = 0
    /// What is wrong with the log, a sentence.
    package var logProblem: String?

    /// False when places of chunks may be missing: the packs have to be looked through again.
    package var isIndexComplete: Bool { chunks.lost == 0 }

    /// Whether all that the journal held is in the new one.
    package var isWhole: Bool {
        let rows = [items, versions, manifests, chunks, stash, meta]
        return rows.allSatisfy { $0.rebuilt == 0 && $0.lost == 0 } && orphans + documents == 0
            && logProblem == nil
    }
}

extension Salvage {
    /// For people: what was kept, what was lost, and where to look.
    package var sentences: [String] {
        guard !isWhole else {
            return ["The journal was damaged, but nothing that it held was lost."]
        }
        var sentences = [
            Self.sentence("item", "items", items), Self.sentence("version", "versions", versions),
            Self.sentence("list of chunks", "lists of chunks", manifests),
            Self.sentence("row of the stash", "rows of the stash", stash),
            Self.sentence("value of the store", "values of the store", meta),
        ].compactMap(\.self)
        if !isIndexComplete {
            sentences.append(
                "Places of chunks may be lost: the packs are to be looked through again.")
        }
        if volume == nil || device == nil {
            sentences.append("Which volume or device this is was lost: it gets a new id.")
        }
        if orphans > 0 {
            sentences.append(
                "The directory of \(orphans) items was lost: what the working tree does not show "
                    + "to be elsewhere is below `recovered`.")
        }
        if documents > 0 {
            sentences.append(
                "\(documents) documents lost their place: their versions are listed by "
                    + "`fsctl versions --deleted` for the top directory.")
        }
        if let logProblem { sentences.append(logProblem) }
        return sentences
    }

    private static func sentence(_ one: String, _ many: String, _ rows: Rows) -> String? {
        func counted(_ count: Int) -> String {
            count == 1 ? "1 \(one)" : "\(count) \(many)"
        }
        guard rows.rebuilt > 0 || rows.lost != 0 else { return nil }
        var text = "\(counted(rows.kept)) kept whole"
        if rows.rebuilt > 0 { text += ", \(rows.rebuilt) in part" }
        switch rows.lost {
        case 0: break
        case let lost?: text += ", \(lost) lost"
        case nil: text += "; how many were lost cannot be told"
        }
        return text + "."
    }
}
