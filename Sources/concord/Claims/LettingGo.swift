import Coordination
import Model
import Mount
import Synchronization
import Volume

/// Asks the presenters of a document that is edited on this device to save it and to let go of it,
/// when a program on another device wants to write it (`lock=ask`, or a claim that holds on all
/// devices). They get it back when that
/// program goes on, as from any writer.
final class LettingGo: Sendable {
    private struct Asked {
        /// Nil after the claim was released.
        var claim: ClaimID?
    }

    private let desk: ClaimService
    private let session: MountSession
    private let notification: EditorNotification
    private let clientSession: ClientSession
    private let asked = Mutex<[Identifier: Asked]>([:])
    /// Whoever asks cannot keep a document from its presenters for longer.
    private static let seconds = 20.0

    init(_ desk: ClaimService, _ session: MountSession, _ notification: EditorNotification) {
        (self.desk, self.session, self.notification) = (desk, session, notification)
        clientSession = desk.arbiter.join(process: 0)
    }

    private var documents: OpenDocuments { desk.volume.openDocuments }

    /// To be called when others have opened or closed documents.
    func changed(opened: [OpenElsewhere]) {
        for open in opened where open.use == .wants { ask(for: open) }
        for (document, known) in asked.withLock({ $0 }) {
            let uses = documents.elsewhere(document).map(\.use)
            if let claim = known.claim, !uses.contains(.wants) { giveBack(document, claim) }
            if !uses.contains(where: { $0 > .shows }) {
                asked.withLock { _ = $0.removeValue(forKey: document) }
                documents.guarded.release(document, false)
            }
        }
    }

    private func ask(for open: OpenElsewhere) {
        let document = open.document
        guard let path = try? documents.path(of: document),
            documents.held.contains(where: { $0.document == document && $0.use == .edits })
        else { return }
        notification.tell(path, isWantedBy: open)
        let place = session.path(path)
        guard !desk.arbiter.presenters(of: place).isEmpty else { return }
        let id = desk.arbiter.reserve()
        let isFirst = asked.withLock { asked in
            guard asked[document] == nil else { return false }
            asked[document] = Asked(claim: id)
            return true
        }
        guard isFirst else { return }
        let request = ClaimRequest(
            [ClaimRequest.Target(.write(.merging), place)], manner: .plain(goesAhead: false),
            clientSession: clientSession)
        desk.arbiter.request(request, as: id) { [documents] _, outcome in
            if case .granted = outcome { documents.guarded.release(document, true) }
        }
        session.later(seconds: LettingGo.seconds) { [weak self] in self?.giveBack(document, id) }
    }

    /// Gives the document back to its presenters.
    private func giveBack(_ document: Identifier, _ id: ClaimID) {
        let isHeld = asked.withLock { asked in
            guard asked[document]?.claim == id else { return false }
            asked[document]?.claim = nil
            return true
        }
        if isHeld { end(id) }
    }

    /// Ends a claim, whether it was granted or not.
    private func end(_ claim: ClaimID) {
        desk.arbiter.step(.cancelled(claim))
        desk.arbiter.step(.released(claim))
    }

    /// Whether a program has let go of a document, although its owner file is still there.
    func hasLetGo(_ path: [Name], _ process: Int32) -> Bool {
        guard !documents.guarded.released.isEmpty,
            let document = try? documents.document(at: path),
            documents.guarded.isReleased(document)
        else { return false }
        return desk.arbiter.presenters(of: session.path(path)).contains {
            MountSession.areRelated($0.process, process)
        }
    }
}
