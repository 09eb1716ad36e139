import Journal
import Model

// Who took a name away from an item, or moved it: kept so that it can be undone.
extension Recorder {
    /// An item's name is gone. What has no row any more never held anything.
    func noteRemoved(_ item: Item, by actor: Actor, _ t: Transaction) throws {
        guard let session = actor.session, try t.item(item.key)?.deleted != nil else { return }
        try t.insert(
            NameChange(
                item: item.key, time: eventTime, parent: item.parent, name: item.name,
                person: person(actor.uid), program: actor.program, session: session))
    }

    /// Before an item moves. The draft that its own maker moves to the name it is meant for is not
    /// moved, but made there.
    func noteMoved(_ item: Item, to parent: Int64, _ move: Move, _ t: Transaction) throws {
        guard let session = move.actor.session else { return }
        let isRecorded = item.latest > 0 || item.kind == .directory || item.kind == .package
        let maker = state.pending[item.key]?.save?.actor.session
        guard isRecorded || maker != nil && maker != session else { return }
        try t.insert(
            NameChange(
                item: item.key, time: eventTime, parent: item.parent, name: item.name,
                target: NameChange.Target(parent: parent, name: move.to.name),
                person: person(move.actor.uid), program: move.actor.program, session: session))
    }
}
