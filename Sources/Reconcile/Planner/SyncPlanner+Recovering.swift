import Model

extension SyncPlanner {
    /// Handles an item that was being applied when the process ended. What the tree already shows
    /// of the hub's state becomes agreed on, so that it does not count as an edit when the hub
    /// sends a newer state.
    package func recover<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure) {
        guard var mirror = try table.mirror(id), mirror.state == .underway else { return }
        if let local = try table.local(id), local.isAlive {
            if try table.hasExchangedPlaces(local, mirror) { mirror.stands(at: local) }
            if let state = mirror.remote, state.life.isAlive {
                let isDetour =
                    local.parent == state.placement.parent
                    && local.name == state.name.withMark(of: id)
                if let base = mirror.base?.image, base.isAlive {
                    try noteConflicts(of: state, beside: local, base, &table)
                    mirror.agree(state, as: try table.local(id) ?? local)
                } else if try table.wasMade(local, state, isDetour) {
                    var base = Agreement(state, try table.session())
                    base.image.keep(shownBy: local)
                    mirror.base = base
                }
                if isDetour { mirror.stands(at: local) }
            }
        }
        mirror.state = mirror.remote == nil ? .settled : .due
        try table.setMirror(id, mirror)
    }

    /// Applying the hub's contents has made the local version history. It is a conflict version at
    /// the hub. It is recorded as one here, too, because another hub might not have it tomorrow.
    private func noteConflicts<T: DeviceTable>(
        of state: ItemState, beside local: Image, _ base: Image, _ table: inout T
    ) throws(T.Failure) {
        guard let mine = local.revision, let current = state.current?.id else { return }
        guard try table.descends(mine, from: current, of: state.id) || mine == current else {
            return
        }
        let known = Set(base.conflicts + local.conflicts + [mine])
        let new = state.conflicts.filter { !known.contains($0.id) }
        if !new.isEmpty { try table.note(conflicts: new, of: state.id) }
    }

}

extension DeviceTable {
    /// Whether applying has created the item. Otherwise a program has taken it out of the trash.
    fileprivate mutating func wasMade(
        _ local: Image, _ state: ItemState, _ isDetour: Bool
    ) throws(Failure) -> Bool {
        guard let current = state.current?.id else {
            return isDetour || local.isAt(Image(state))
        }
        guard let mine = local.revision else { return false }
        if mine == current { return true }
        return try descends(mine, from: current, of: state.id)
    }

    /// Whether the item and the one in its place have already exchanged places, as the hub wants.
    fileprivate mutating func hasExchangedPlaces(
        _ local: Image, _ mirror: Mirror
    ) throws(Failure) -> Bool {
        guard let base = mirror.base?.image, !local.isAt(base),
            let other = try localChild(base.name, in: base.parent),
            let twin = try self.mirror(other), let left = twin.base?.image, left.isAt(local),
            let remote = twin.remote
        else { return false }
        return Image(remote).isAt(base)
    }
}

extension Image {
    /// What the tree does not show yet was not settled or removed on this device.
    fileprivate mutating func keep(shownBy local: Image) {
        conflicts = conflicts.filter { local.conflicts.contains($0) }
        attributes = attributes.filter { local.attributes[$0.key] != nil }
    }
}

extension Mirror {
    /// The item is elsewhere because another item has taken its place. No program has moved it.
    mutating func stands(at place: Image) {
        base?.image.parent = place.parent
        base?.image.name = place.name
    }

    /// Compares each register by itself, because only some of the steps may have been done.
    mutating func agree(_ state: ItemState, as local: Image) {
        let remote = Image(state)
        guard var base else { return }
        if local.isAt(remote) {
            base.image.parent = remote.parent
            base.image.name = remote.name
            (base.placedBy, base.placedAt) = (state.placedBy, state.placedAt)
        }
        if local.hasContents(of: remote) {
            (base.image.revision, base.image.content) = (remote.revision, remote.content)
        }
        for name in Set(local.attributes.keys).union(remote.attributes.keys)
        where local.attributes[name] == remote.attributes[name] {
            base.image.attributes[name] = remote.attributes[name]
            base.attributedAt[name] = state.attributes[name]?.moment
        }
        if local.conflicts == remote.conflicts { base.image.conflicts = remote.conflicts }
        self.base = base
    }
}
