import Model

/// Which version of a document was made from which, as far as this device knows. It does not know
/// versions that other devices saved between two contacts with the hub.
package struct Lineage {
    private let versions: [Identifier: Version]

    package init(_ versions: [Version]) {
        self.versions = Dictionary(versions.map { ($0.id, $0) }) { $1 }
    }

    /// The newest common ancestor of two versions, which is the base for merging them. If the
    /// ancestry leads through versions that this device does not know, it is the parent of the
    /// conflict version, which was current once. Nil if there is nothing to merge or no base is
    /// known.
    package func base(of current: Identifier, and conflict: Identifier) -> Version? {
        let mine = ancestors(of: current)
        var theirs = ancestors(of: conflict)
        if let original = original(of: conflict) {
            // The conflict was resolved before, so the current version was made from it too.
            theirs.known.subtract([conflict, original])
        }
        let common = mine.known.intersection(theirs.known).compactMap { versions[$0] }
        if let newest = common.max(by: { ($0.saved, $0.number) < ($1.saved, $1.number) }) {
            // If one version was made from the other, there is nothing to merge.
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

    /// The resolved version that this one restores, because its resolution was undone. Both were
    /// saved at the same moment, which is impossible for a child. Contents at the hub cannot be
    /// compared.
    package func original(of conflict: Identifier) -> Identifier? {
        guard let version = versions[conflict], version.parents.count == 1,
            let parent = versions[version.parents[0]], parent.saved == version.saved,
            parent.size == version.size
        else { return nil }
        return parent.id
    }

    /// All ancestors, including the version itself. `isWhole` is true if every path ends at a
    /// version without parents.
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
