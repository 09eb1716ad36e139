import Model

/// When placement and attributes of an item were last changed on this device: nanoseconds since
/// 1970 by the hub's clock, as far as it is known; nil when unknown. Contents have a time of their
/// own in their version.
package struct ChangeTimes: Hashable, Sendable {
    package var placed: Int64?
    /// All attributes together have one time.
    package var attributes: Int64?

    package init(placed: Int64? = nil, attributes: Int64? = nil) {
        self.placed = placed
        self.attributes = attributes
    }
}

/// When the changes of an item that are sent now were made. What has not changed since an agreement
/// with an earlier hub, or with this one before it was restored, is as old as it was then. So a
/// device undoes nothing that another one did later.
struct ChangeDates {
    let times: ChangeTimes
    /// The agreement, if it is an earlier one.
    var agreed: Agreement?
    /// What the item was like before its unsent changes, as far as it is known.
    let before: Agreement?

    /// A change is newer than what it replaces, whatever the clocks say: this device has seen it.
    func moment(of change: Change, by device: Identifier, now: Int64) -> Moment {
        var moment = Moment(time: time(of: change, now: now), device: device)
        guard let before else { return moment }
        switch change {
        case .create(let creation):
            moment.raise(above: before, creation.placement)
        case .move(let placement, _): moment.raise(above: before, placement)
        case .attribute(let name, let value): moment.raise(above: before, name, value)
        case .edit, .resolve, .delete, .restore: break
        }
        return moment
    }

    private func time(of change: Change, now: Int64) -> Int64 {
        switch change {
        // One time stands for all that a new item's creation says.
        case .create(let creation):
            guard agreed != nil else {
                return creation.revision?.moment.time ?? min(now, times.placed ?? now)
            }
            return min(now, placed(creation.placement) ?? now)
        case .move(let placement, _): return min(now, placed(placement) ?? now)
        case .attribute(let name, let value): return min(now, attributed(name, value) ?? now)
        case .edit, .resolve, .delete, .restore: return change.revision?.moment.time ?? now
        }
    }

    /// A temporary name was never agreed on, so it is new.
    private func placed(_ placement: Placement) -> Int64? {
        if let placed = times.placed { return placed }
        guard let image = agreed?.image, image.parent == placement.parent,
            image.name == placement.name
        else { return nil }
        return agreed?.placedAt?.time
    }

    private func attributed(_ name: String, _ value: [UInt8]?) -> Int64? {
        guard let agreed, let moment = agreed.attributedAt[name],
            agreed.image.attributes[name] == value
        else { return times.attributes }
        return moment.time
    }
}

extension DeviceTable {
    mutating func changeDates(_ id: Identifier, _ session: Session) throws(Failure) -> ChangeDates {
        let base = try mirror(id)?.base
        let earlier = base.flatMap { $0.isOf(session) ? nil : $0 }
        return ChangeDates(times: try changeTimes(id), agreed: earlier, before: base)
    }
}

extension Moment {
    /// Makes it newer than the placement in an agreement, if that is another one.
    fileprivate mutating func raise(above agreed: Agreement, _ placement: Placement) {
        let image = agreed.image
        guard let moment = agreed.placedAt,
            image.parent != placement.parent || image.name != placement.name
        else { return }
        raise(above: moment)
    }

    /// Makes it newer than the attribute's value in an agreement, if that is another one.
    fileprivate mutating func raise(above agreed: Agreement, _ name: String, _ value: [UInt8]?) {
        guard let moment = agreed.attributedAt[name], agreed.image.attributes[name] != value
        else { return }
        raise(above: moment)
    }
}
