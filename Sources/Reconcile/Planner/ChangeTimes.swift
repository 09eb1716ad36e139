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

    /// The same times by a clock that is so many nanoseconds ahead.
    package func shifted(by offset: Int64) -> ChangeTimes {
        ChangeTimes(placed: placed.map { $0 + offset }, attributes: attributes.map { $0 + offset })
    }
}

/// When the changes of an item that are sent now were made. What has not changed since an agreement
/// with an earlier hub, or with this one before it was restored, is as old as it was then. So a
/// device undoes nothing that another one did later.
struct ChangeDates {
    let times: ChangeTimes
    /// The agreement, if it is an earlier one.
    var agreed: Agreement?
    /// Whether this device still has the item where the agreement says.
    var isWhereAgreed = false
    /// What the item was like before its unsent changes, as far as it is known.
    let before: Agreement?

    /// A change is newer than what it replaces, whatever the clocks say: this device has seen it.
    func moment(of change: Change, by device: Identifier, now: Int64) -> Moment {
        var moment = Moment(time: time(of: change, by: device, now: now), device: device)
        guard let before else { return moment }
        switch change {
        case .create(let creation): raise(&moment, creation.placement)
        case .move(let placement, _): raise(&moment, placement)
        case .attribute(let name, let value): moment.raise(above: before, name, value)
        case .edit, .resolve, .delete, .restore: break
        }
        return moment
    }

    /// A temporary name comes before the placement that was agreed on, and is not newer than it.
    private func raise(_ moment: inout Moment, _ placement: Placement) {
        guard let before, !isWhereAgreed else { return }
        moment.raise(above: before, placement)
    }

    private func time(of change: Change, by device: Identifier, now: Int64) -> Int64 {
        switch change {
        // One time stands for all that a new item's creation says: that of its last change.
        case .create(let creation):
            guard agreed != nil else {
                let changed = [times.placed, times.attributes].compactMap(\.self).max()
                guard let saved = creation.revision?.moment.time else {
                    return min(now, changed ?? now)
                }
                return max(saved, min(now, changed ?? saved))
            }
            return min(now, placed(creation.placement, by: device) ?? now)
        case .move(let placement, _): return min(now, placed(placement, by: device) ?? now)
        case .attribute(let name, let value):
            return min(now, attributed(name, value, by: device) ?? now)
        case .edit, .resolve, .delete, .restore: return change.revision?.moment.time ?? now
        }
    }

    /// A placement that was agreed on is as old as it was then, also if the journal noted when it
    /// arrived on this device. So is a temporary name that comes before it, and the placement after
    /// a temporary name: no program has moved the item.
    private func placed(_ placement: Placement, by device: Identifier) -> Int64? {
        if isWhereAgreed, let agreed, let moment = agreed.placedAt {
            let time = moment.time(repeatedBy: device)
            let isFinal = agreed.image.isAt(placement)
            return isFinal ? time : Moment.before(time)
        }
        if agreed == nil, times.placed == nil, let known = before?.placedAt {
            return known.time(repeatedBy: device)
        }
        return times.placed
    }

    private func attributed(_ name: String, _ value: [UInt8]?, by device: Identifier) -> Int64? {
        guard let agreed, let moment = agreed.attributedAt[name],
            agreed.image.attributes[name] == value
        else { return times.attributes }
        return moment.time(repeatedBy: device)
    }
}

extension DeviceTable {
    mutating func changeDates(_ id: Identifier, _ session: Session) throws(Failure) -> ChangeDates {
        let base = try mirror(id)?.base
        let earlier = base.flatMap { $0.isOf(session) ? nil : $0 }
        var dates = ChangeDates(times: try changeTimes(id), agreed: earlier, before: base)
        if let earlier, let local = try local(id) {
            dates.isWhereAgreed = local.isAt(earlier.image)
        }
        return dates
    }
}

extension Image {
    fileprivate func isAt(_ placement: Placement) -> Bool {
        parent == placement.parent && name == placement.name
    }
}

extension Moment {
    /// The time of a change that another device has made and this one repeats. It is never newer
    /// than the change itself: of two moments with one time, the device decides.
    fileprivate func time(repeatedBy other: Identifier) -> Int64 {
        other == device ? time : Moment.before(time)
    }

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
