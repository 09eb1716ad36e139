import Model

@testable import Coordination

/// C5: which presenter must be notified of what has happened.
extension Ledger {
    private func ancestors(of place: Place) -> [Presenting] {
        presenters.filter { Rules.isBelow(place, $0.place) }
    }

    private func hears(_ presenting: Presenting, _ message: Message) -> Bool {
        presenting.presenter.hears.contains(message.capability)
    }

    private func isDocument(_ presenting: Presenting) -> Bool {
        presenting.isPackage || !presenting.presenter.isDirectory
    }

    func expectedChange(_ place: Place, _ by: Set<PresenterID>, isNew: Bool)
        -> [(PresenterID, Message)]
    {
        var expected: [(PresenterID, Message)] = []
        for one in presenters
        where one.place == place && !by.contains(one.id) && isDocument(one) && hears(one, .changed)
        { expected.append((one.id, .changed)) }
        let path = Names.path(place)
        for one in ancestors(of: place) where !by.contains(one.id) {
            let appears = isNew && hears(one, .subitemAppeared(path))
            if appears { expected.append((one.id, .subitemAppeared(path))) }
            if hears(one, .subitemChanged(path)) {
                expected.append((one.id, .subitemChanged(path)))
            } else if !appears, one.isPackage, hears(one, .changed) {
                expected.append((one.id, .changed))
            }
        }
        return expected
    }

    func expectedMove(_ from: Place, _ to: Place, _ by: Set<PresenterID>)
        -> [(PresenterID, Message)]
    {
        var expected: [(PresenterID, Message)] = []
        let message = Message.subitemMoved(from: Names.path(from), to: Names.path(to))
        for one in presenters where !by.contains(one.id) {
            if one.place.starts(with: from) {
                let place = to + one.place.dropFirst(from.count)
                let moved = Message.moved(Names.path(place))
                if hears(one, moved) { expected.append((one.id, moved)) }
            }
            guard Rules.isBelow(from, one.place) || Rules.isBelow(to, one.place) else { continue }
            if hears(one, message) {
                expected.append((one.id, message))
            } else if one.isPackage, hears(one, .changed) {
                expected.append((one.id, .changed))
            }
        }
        return expected
    }

    func expectedVersion(_ place: Place, _ change: VersionChange, _ id: String)
        -> [(PresenterID, Message)]
    {
        let item = Message.version(change, id: id)
        let subitem = Message.subitemVersion(Names.path(place), change, id: id)
        let here = presenters.filter { $0.place == place && isDocument($0) && hears($0, item) }
        let above = ancestors(of: place).filter { hears($0, subitem) }
        return here.map { ($0.id, item) } + above.map { ($0.id, subitem) }
    }
}
