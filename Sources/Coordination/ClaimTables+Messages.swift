// Which messages the presenters around a claim's targets get: the matrix of Rules.md, C4.
extension ClaimTables {
    /// The messages that one presenter gets for one claim.
    struct Duties {
        var relinquish: Message?
        var then: [Message] = []
    }

    func duties(_ claim: Claim) -> [PresenterID: Duties] {
        var found: [PresenterID: Duties] = [:]
        let own = claim.request.presenters
        let isPreparing = claim.request.manner == .preparing
        // Presenters have already answered for what a program does under its own claim. A presenter
        // that had to save now would wait for the end of that claim, and the claim would wait for
        // the save.
        let turns = claim.isPlain ? turns(of: claim.request.purposes) : []
        for target in claim.targets where !turns.contains(where: { $0.covers(target) }) {
            for id in trie[target.spot].presenters where !own.contains(id) {
                add(itemQuestions(claim.id, target.access), to: &found, id)
            }
            for (place, _) in trie.ancestors(of: target.path) {
                for id in trie[place].presenters
                where !own.contains(id) && presenters[id]!.isPackage {
                    add(packageQuestions(claim.id, target), to: &found, id)
                }
            }
            guard target.access.isDeep || isPreparing else { continue }
            for place in trie.below(target.spot) {
                for id in trie[place].presenters where !own.contains(id) {
                    add(itemQuestions(claim.id, target.access), to: &found, id)
                }
            }
        }
        return found
    }

    private func itemQuestions(_ id: ClaimID, _ access: Access) -> Duties {
        var duties = Duties(relinquish: relinquish(id, access))
        if access.isRemoving { duties.then.append(.accommodateDeletion(id)) }
        if access.wantsChanges { duties.then.append(.save(id)) }
        return duties
    }

    /// The messages to the presenter of a package that contains the item. When something in a
    /// package is deleted, the package itself is only changed.
    private func packageQuestions(_ id: ClaimID, _ target: Claim.Target) -> Duties {
        var duties = Duties(relinquish: relinquish(id, target.access))
        if target.access.isRemoving {
            duties.then.append(.accommodateSubitemDeletion(id, target.path))
        }
        if target.access.wantsChanges { duties.then.append(.save(id)) }
        return duties
    }

    private func relinquish(_ id: ClaimID, _ access: Access) -> Message {
        access.isWriting ? .relinquishToWriter(id) : .relinquishToReader(id)
    }

    /// Adds messages, but only those that the presenter implements. `relinquishToWriter` replaces
    /// `relinquishToReader`, because it demands more.
    private func add(
        _ duties: Duties, to all: inout [PresenterID: Duties], _ presenter: PresenterID
    ) {
        guard let hears = presenters[presenter]?.presenter.hears else { return }
        var known = all[presenter] ?? Duties()
        if let message = duties.relinquish, hears.contains(message.capability) {
            if case .relinquishToWriter = known.relinquish {} else { known.relinquish = message }
        }
        for message in duties.then
        where hears.contains(message.capability) && !known.then.contains(message) {
            known.then.append(message)
        }
        all[presenter] = known
    }
}
