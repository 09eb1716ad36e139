import Journal
import Model

/// Records which session removed or moved an item, so that this can be undone. Only the recorder's
/// thread uses it.
struct NameChangeLog {
    let writer: JournalWriter
    let versionMaker: VersionMaker

    /// Notes that an item was removed. An item without a row never had contents.
    func noteRemoved(_ item: Item, by actor: Actor, _ t: Transaction) throws {
        guard let session = actor.session, try t.item(item.key)?.deleted != nil else { return }
        try t.insert(
            NameChange(
                item: item.key, time: writer.eventTime, parent: item.parent, name: item.name,
                person: versionMaker.person(actor.uid), program: actor.program, session: session))
    }

    /// Notes that an item is about to be moved. A session often writes a new file and renames it
    /// before the file is recorded; that rename creates the document, so it is not noted as a move.
    func noteMoved(_ item: Item, to parent: Int64, _ move: Move, _ t: Transaction) throws {
        guard let session = move.actor.session else { return }
        let isRecorded = item.latest > 0 || item.kind == .directory || item.kind == .package
        let maker = writer.state.pending[item.key]?.save?.actor.session
        guard isRecorded || maker != nil && maker != session else { return }
        try t.insert(
            NameChange(
                item: item.key, time: writer.eventTime, parent: item.parent, name: item.name,
                target: NameChange.Target(parent: parent, name: move.to.name),
                person: versionMaker.person(move.actor.uid), program: move.actor.program,
                session: session))
    }
}
