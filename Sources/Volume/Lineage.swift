import Model

/// Which version of a document came from which, as far as this device knows: of what others saved
/// between two looks it knows nothing.
package struct Lineage {
    private let versions: [Identifier: Version]

    package init(_ versions: [Version]) {
        self.versions = Dictionary(versions.map { ($0.id, $0) }) { $1 }
    }

    /// The newest version that both come from: the true base of a merge of the two. Where the way
    /// back leads through versions that this device has never heard of, what the conflict version
    /// was based on: it was current once.
    package func base(of current: Identifier, and conflict: Identifier) -> Version? {
        let mine = ancestors(of: current)
        var theirs = ancestors(of: conflict)
        if let original = original(of: conflict) {
            // It was settled before, so that what is current came from it, too.
            theirs.known.subtract([conflict, original])
        }
        let common = mine.known.intersection(theirs.known).compactMap { versions[$0] }
        if let newest = common.max(by: { ($0.saved, $0.number) < ($1.saved, $1.number) }) {
            // One of the two is based on the other: nothing to merge.
            return newest.id == current || newest.id == conflict ? nil : newest
        }
        if !mine.isWhole, let parent = versions[conflict]?.parents.first.flatMap({ versions[$0] }) {
            return parent
        }
        if !theirs.isWhole, let parent = versions[current]?.parents.first.flatMap({ versions[$0] })
        {
            return parent
        }
        return nil
    }

    /// The settled version that this one is again, since its settling was taken back: saved at
    /// the same moment, which no child of it can be. Contents that are not here cannot be compared.
    package func original(of conflict: Identifier) -> Identifier? {
        guard let version = versions[conflict], version.parents.count == 1,
            let parent = versions[version.parents[0]], parent.saved == version.saved,
            parent.size == version.size
        else { return nil }
        return parent.id
    }

    /// With itself. `isWhole`: each way back ends at a version without parents.
    private func ancestors(of id: Identifier) -> (known: Set<Identifier>, isWhole: Bool) {
        var known: Set<Identifier> = []
        var isWhole = true
        var open = [id]
        while let next = open.popLast() {
            guard let version = versions[next] else {
                isWhole = false
                continue
            }
            if known.insert(next).inserted { open += version.parents }
        }
        return (known, isWhole)
    }
}
