import Model

extension Exchange {
    /// After a crash: nobody brings it there now. What of it is in the tree by now is agreed on, so
    /// that it is not taken for an edit when the hub says something newer.
    package func recover<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure) {
        guard var mirror = try table.mirror(id), mirror.state == .underway else { return }
        if let local = try table.local(id), local.isAlive {
            if try wasSwapped(local, mirror, &table) { mirror.stands(at: local) }
            if let state = mirror.remote, state.life.isAlive {
                let isDetour =
                    local.parent == state.placement.parent
                    && local.name == state.name.withMark(of: id)
                if let base = mirror.base?.image, base.isAlive {
                    try noteConflicts(of: state, beside: local, base, &table)
                    mirror.agree(state, as: try table.local(id) ?? local)
                } else if try wasMade(local, state, isDetour, &table) {
                    var base = agreement(state, try table.session())
                    base.image.keep(shownBy: local)
                    mirror.base = base
                }
                if isDetour { mirror.stands(at: local) }
            }
        }
        mirror.state = mirror.remote == nil ? .settled : .due
        try table.setMirror(id, mirror)
    }

    /// Contents that were brought have left what was here to history. It is a conflict version, and
    /// nobody else may have it when this hub is another one tomorrow.
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

    /// Or else a program has taken it out of the trash.
    private func wasMade<T: DeviceTable>(
        _ local: Image, _ state: ItemState, _ isDetour: Bool, _ table: inout T
    ) throws(T.Failure) -> Bool {
        guard let current = state.current?.id else {
            return isDetour || local.isAt(Image(state))
        }
        guard let mine = local.revision else { return false }
        if mine == current { return true }
        return try table.descends(mine, from: current, of: state.id)
    }

    /// Whether what was in its place is where the hub wants it, and this item where that was.
    private func wasSwapped<T: DeviceTable>(
        _ local: Image, _ mirror: Mirror, _ table: inout T
    ) throws(T.Failure) -> Bool {
        guard let base = mirror.base?.image, !local.isAt(base),
            let other = try table.localChild(base.name, in: base.parent),
            let twin = try table.mirror(other), let left = twin.base?.image, left.isAt(local),
            let remote = twin.remote
        else { return false }
        return Image(remote).isAt(base)
    }
}

extension Image {
    /// What is not shown yet was not settled or removed here.
    fileprivate mutating func keep(shownBy local: Image) {
        conflicts = conflicts.filter { local.conflicts.contains($0) }
        attributes = attributes.filter { local.attributes[$0.key] != nil }
    }
}

extension Mirror {
    /// It stands elsewhere because another item took its place, and no program wanted that.
    mutating func stands(at place: Image) {
        base?.image.parent = place.parent
        base?.image.name = place.name
    }

    /// Register by register: a part of the steps may be done.
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
        }
        if local.conflicts == remote.conflicts { base.image.conflicts = remote.conflicts }
        self.base = base
    }
}
