import CLinux
import Coordination
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// The open files of programs: open and release, with what an open waits for. Its replies are wire
/// structures, because libfuse 3.14 has no field for the backing id.
final class OpenFiles: RequestGroup {
    let parts: RequestParts
    let passthrough: Passthrough
    let negotiation: Negotiation
    /// The mount option noatime: reading a file does not change its access time.
    let keepsAccessTimes: Bool
    private let log: Logger
    let editorWaits: EditorWaits
    let handles = HandleTable<Handle>()
    private let staleOpens = Mutex(StaleOpens())

    init(
        _ parts: RequestParts, passthrough: Passthrough, negotiation: Negotiation,
        keepsAccessTimes: Bool, log: Logger
    ) {
        self.parts = parts
        self.passthrough = passthrough
        self.negotiation = negotiation
        self.keepsAccessTimes = keepsAccessTimes
        self.log = log
        editorWaits = EditorWaits(
            parts.tree.volume.openDocuments.guarded, parts.claims.arbitration)
    }

    func open(_ request: Request, _ id: UInt64, flags: Int32) {
        request.answer { () throws(Errno) in
            let node = try tree.node(id)
            let opening = try Opening(
                self, node, try tree.descriptor(node), flags: flags, caller: request.caller)
            let mayAwaitOthers = mayAwaitOthers(opening)
            if !mayAwaitOthers, claims.isFree(node, opening.access), opening.takeLease() {
                return try proceed(request, opening)
            }
            WaitingOpen(request, opening, mayAwaitOthers: mayAwaitOthers).begin()
        }
    }

    /// Whether the file lost its name while the kernel was resolving the path for this request, and
    /// the kernel is to resolve it once more (`StaleOpens`).
    func isStale(_ id: UInt64, for caller: Caller) -> Bool {
        guard let node = tree.nodes[id], tree.nodes.flags(of: node).contains(.orphan) else {
            return false
        }
        return staleOpens.withLock { $0.isFirst(of: id, by: caller.process) }
    }

    /// Whether its rules may say that an open for writing waits for editors on other devices, or
    /// for the hub's grant.
    private func mayAwaitOthers(_ opening: Opening) -> Bool {
        let guarded = volume.openDocuments.guarded
        guard guarded.isAny, opening.access.isWriting, claims.arbitration.settings.isOn,
            !callers.isApplier(opening.caller),
            let path = tree.nodes.path(of: opening.node)
        else { return false }
        return guarded.mayHold(path) || guarded.grants.mayHold(path)
    }

    /// Continues an open that was granted.
    func proceed(_ request: Request, _ opening: Opening) throws(Errno) {
        let contents: Opening.Contents
        do throws(Errno) { contents = try opening.lookAtContents() } catch {
            opening.abandon()
            throw error
        }
        switch contents {
        case .ready: try opening.run(request) { self.answerOpen($0, $1) }
        case .moment:
            fetcher.retry(
                request, else: { opening.abandon() },
                { request in
                    request.answer { () throws(Errno) in try self.proceed(request, opening) }
                })
        case .need(let need, let file):
            fetcher.awaitContents(
                request, need, of: file, else: { opening.abandon() },
                { request in
                    request.answer { () throws(Errno) in
                        try opening.run(request) { self.answerOpen($0, $1) }
                    }
                })
        }
    }

    private func answerOpen(_ request: Request, _ opened: Opening.Opened) {
        if !request.reply(wire: opened.reply) { return closeHandle(opened.number) }
        // The kernel must not use cached attributes while a mapping may change the file.
        if opened.handle.isSharedWriter { notifier.tell(.attributes(opened.handle.node.id)) }
    }

    // MARK: Closing

    /// Handles RELEASE, which the kernel sends once for each open, some time after the last
    /// close(2). No program waits for the answer.
    func release(_ request: Request, _ number: UInt64) {
        if VersionNodes.isVirtual(number) { return request.done() }
        closeHandle(number, unique: request.caller.unique)
        request.done()
    }

    /// Closes a handle. `unique` is the kernel's number of the release; nil if an open could not be
    /// answered.
    func closeHandle(_ number: UInt64, unique: UInt64? = nil) {
        guard let handle = handles.remove(number) else { return }
        let unique = unique ?? handle.caller.unique
        // A descriptor of this process that can write would look like a program that still writes.
        handle.close()
        if let contents = handle.contents { volume.hydration.endUse(contents) }
        if handle.isCreator { tree.nodes.remove(.unsaved, from: handle.node) }
        if handle.writes {
            claims.tellClosed(handle)
            ownerFileReaders.handlesChanged()
        }
        if !end(handle, unique: unique, mayBlock: false) {
            parking.runDetached(on: .opens, inLine: handle.state.line) {
                _ = self.end(handle, unique: unique, mayBlock: true)
            }
        }
    }

    /// Whether another program than these processes has the file open for writing.
    func isWritten(_ node: Node, exceptBy processes: Set<Int32>) -> Bool {
        handles.numbers.contains { number in
            guard let handle = try? handles.find(number), handle.writes, handle.node === node else {
                return false
            }
            return ProcessAncestry.process(of: handle.caller.process).map {
                !processes.contains($0)
            } ?? true
        }
    }

    /// Closes the remaining handles at unmount. The kernel then drops undelivered requests,
    /// including releases, and each of those may end a save. Each release counts as earlier than
    /// every open, so that contents kept at an open become saves.
    func closeRemaining() {
        for number in handles.numbers { closeHandle(number, unique: 0) }
    }

    /// Returns false if nothing was done because another thread has the file's `writing`.
    private func end(_ handle: Handle, unique: UInt64, mayBlock: Bool) -> Bool {
        if handle.writes {
            let told: Void? = try? handle.state.withWriting(mayBlock: mayBlock) {
                (writing) throws(Errno) -> Void in
                self.staleSaves.noteWritten(handle)
                self.volume.writing.close(
                    &writing, file: handle.file.raw, traits: self.tree.traits(handle.node),
                    unique: unique,
                    displaced: handle.state.displaced.load(ordering: .relaxed))
            }
            guard told != nil else { return false }
        }
        handle.state.life.withLock { life in
            life.handles -= 1
            guard life.handles == 0 else { return }
            if case .passthrough(let backing) = life.mode {
                self.passthrough.close(backing)
            }
            life.mode = .closed
        }
        if handle.isSharedWriter {
            if tree.isMapped(handle.file) { tree.nodes.insert(.mapped, into: handle.node) }
            tree.nodes.countSharedWriter(handle.state, by: -1)
        }
        leave(
            handle.state, lease: handle.lease, claim: handle.claim, document: handle.document)
        tree.nodes.endUse(of: handle.node, handle.state)
        return true
    }

    /// Records what was written in a coordinated write as a save, although the file is still open.
    func endCoordinatedWrite(inode: UInt64) {
        guard let node = tree.nodes.known(inode),
            let state = tree.nodes.locked({ node.opened }),
            let file = tree.nodes.descriptor(of: node), let status = try? file.status()
        else { return }
        do throws(Errno) {
            _ = try state.withWriting(mayBlock: false) { (writing) throws(Errno) in
                try self.volume.writing.endCoordinatedWrite(
                    &writing, file: file.raw, status: status, traits: self.tree.traits(node)
                )
            }
        } catch {
            log.error("The end of a coordinated write cannot be recorded as a save: \(error).")
        }
    }

    /// Releases what a handle had, or an open that has failed: the implicit lease, the claim, and
    /// the document that only this device may edit.
    func leave(_ state: OpenState, lease: UInt64?, claim: ClaimID?, document: Identifier?) {
        if let lease { state.changeLeases { $0.release(lease, now: $1) } }
        if let claim { claims.arbiter.step(.released(claim)) }
        if let document { volume.openDocuments.guarded.grants.end(document) }
    }
}
