import Model

// What presenters are notified of after it has happened: Rules.md, C5. No claim waits for these
// messages.
extension Coordination {
    mutating func tellChange(_ path: Path, _ by: Set<PresenterID>) {
        for id in tables.presentersAt(path) where !by.contains(id) && tables.isDocument(id) {
            tell(id, .changed)
        }
        tellAncestors(of: path, .subitemChanged(path), by)
    }

    mutating func tellAppearance(_ path: Path, _ by: Set<PresenterID>) {
        // A presenter may have been registered before the file existed.
        for id in tables.presentersAt(path) where !by.contains(id) && tables.isDocument(id) {
            tell(id, .changed)
        }
        tellAncestors(of: path, .subitemAppeared(path), by)
    }

    mutating func tellVersion(_ path: Path, _ change: VersionChange, _ id: String) {
        for presenter in tables.presentersAt(path) where tables.isDocument(presenter) {
            tell(presenter, .version(change, id: id))
        }
        for (place, _) in tables.trie.ancestors(of: path) {
            for presenter in tables.trie[place].presenters.sorted() {
                tell(presenter, .subitemVersion(path, change, id: id))
            }
        }
    }

    /// Moves the claims and presenters of the item, and of everything that it contains, to the new
    /// place, and notifies presenters. A claim that waits to replace the item at the old place
    /// stays there (C6).
    mutating func move(_ from: Path, _ to: Path, _ by: Set<PresenterID>) {
        guard from.names != to.names, !to.isBelow(from) else { return }
        var told = Set(tables.trie.ancestors(of: from).flatMap { tables.trie[$0.index].presenters })
        told.formUnion(tables.trie.ancestors(of: to).flatMap { tables.trie[$0.index].presenters })
        if let spot = tables.trie.find(from) {
            let places = [spot] + tables.trie.below(spot)
            let moved = Set(places.flatMap { tables.trie[$0].claims })
            for id in places.flatMap({ tables.trie[$0].presenters }).sorted() {
                move(presenter: id, from, to, by)
            }
            for id in moved.sorted() { move(claim: id, from, to) }
        }
        for id in told.sorted() where !by.contains(id) {
            tellFalling(id, .subitemMoved(from: from, to: to))
        }
    }

    private mutating func move(
        presenter id: PresenterID, _ from: Path, _ to: Path, _ by: Set<PresenterID>
    ) {
        var moved = tables.presenters[id]!
        moved.presenter.path = moved.presenter.path.replacing(from, with: to)
        tables.trie[moved.spot].presenters.remove(id)
        let spot = tables.trie.retain(moved.presenter.path.steps)
        tables.trie.release(moved.spot)
        tables.trie[spot].presenters.insert(id)
        moved.spot = spot
        tables.presenters[id] = moved
        if !by.contains(id) { tell(id, .moved(moved.presenter.path)) }
    }

    private mutating func move(claim id: ClaimID, _ from: Path, _ to: Path) {
        guard var claim = tables.claims[id] else { return }
        let stays = { (target: Claim.Target) in
            target.access == .write(.replacing) && !claim.isGranted
                && target.path.names == from.names
        }
        guard
            claim.targets.contains(where: {
                ($0.path.names == from.names || $0.path.isBelow(from)) && !stays($0)
            })
        else { return }
        tables.dequeue(claim)
        for target in claim.targets { tables.trie[target.spot].claims.remove(id) }
        for (index, target) in claim.targets.enumerated()
        where (target.path.names == from.names || target.path.isBelow(from)) && !stays(target) {
            let path = target.path.replacing(from, with: to)
            let (spot, unit) = (tables.trie.retain(path.steps), tables.trie.retain(path.unit))
            tables.trie.release(target.spot)
            tables.trie.release(target.unit)
            claim.targets[index] = Claim.Target(
                access: target.access, path: path, spot: spot, unit: unit, yields: target.yields)
        }
        tables.claims[id] = claim
        for target in claim.targets { tables.trie[target.spot].claims.insert(id) }
        tables.enqueue(claim)
        reexamine(id)
        reexamine(waitersOf: id)
        reexamine(relatedTo: claim)
    }

    // MARK: Who hears

    private mutating func tellAncestors(
        of path: Path, _ message: Message, _ by: Set<PresenterID>
    ) {
        for (place, _) in tables.trie.ancestors(of: path) {
            for id in tables.trie[place].presenters.sorted() where !by.contains(id) {
                tellFalling(id, message)
            }
        }
    }

    /// Sends a message about something in a directory or package. The presenter of a package that
    /// does not implement it gets `changed` instead. A new item is always sent as a change as well,
    /// because few presenters implement appearances.
    private mutating func tellFalling(_ id: PresenterID, _ message: Message) {
        guard let presenting = tables.presenters[id] else { return }
        let hears = presenting.presenter.hears
        if case .subitemAppeared(let path) = message {
            tell(id, message)
            if hears.contains(.subitemChange) { return tell(id, .subitemChanged(path)) }
        }
        if hears.contains(message.capability) {
            if case .subitemAppeared = message { return }
            return tell(id, message)
        }
        if presenting.isPackage { tell(id, .changed) }
    }

    private mutating func tell(_ id: PresenterID, _ message: Message) {
        guard tables.presenters[id]?.presenter.hears.contains(message.capability) == true else {
            return
        }
        effects.append(.told(id, message))
    }
}

extension Path {
    func replacing(_ from: Path, with to: Path) -> Path {
        Path(to.steps + steps.dropFirst(from.steps.count))
    }
}
