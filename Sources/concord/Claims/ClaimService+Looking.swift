import CLinux
import Control
import Coordination
import Glibc
import Model
import Mount
import Volume

// The verbs of clients that look on: `locks` and `watch`.
extension ClaimService {
    func locks(_ request: Control.Request, _ client: Connection) throws(VolumeError) {
        let path = request.path == nil ? nil : session.path(try request.components())
        let leases =
            session.leaseReports(at: path?.names) + session.editorReports(at: path?.names)
        var turns = leases.map(LocksReport.Turn.init)
        turns += arbiter.claimStatuses(at: path).map { status in
            turn(status)
        }
        turns.removeAll { !volume.mayKnow(client.peer, of: $0.path.path ?? []) }
        var report = LocksReport(turns: turns)
        let elsewhere = try volume.whoElse(at: path?.names ?? [], for: client.peer)
        report.elsewhere = elsewhere.isEmpty ? nil : elsewhere
        client.reply(request, report)
    }

    private func turn(_ status: Arbiter.ClaimStatus) -> LocksReport.Turn {
        let state: LocksReport.Turn.State =
            switch status.state {
            case .waiting: .waiting
            case .asking: .asking
            case .granted: .granted
            }
        let kind: LocksReport.Turn.Kind =
            switch status.kind {
            case .claim: .claim
            case .plain: .plain
            case .presenter: .presenter
            }
        return LocksReport.Turn(
            kind: kind, state: state, access: status.access?.text ?? "",
            path: RawText(path: status.path.names), process: status.process,
            program: session.program(status.process), since: status.since,
            behind: status.behind.map { process, why in
                LocksReport.Behind(
                    process: process, program: session.program(process), why: why)
            })
    }

    func watch(_ request: Control.Request, _ client: Connection, _ clientSession: ClientSession)
        throws(VolumeError)
    {
        let top = request.path == nil ? Path([]) : session.path(try request.components())
        client.reply(request)
        clients.withLock {
            $0[client.number]?.watcher = client
            $0[client.number]?.watched = top
            $0[client.number]?.watchesContents = request.contents == true
        }
        arbiter.observe(clientSession) { [session, arbiter, volume] note in
            for event in ClaimService.events(note, session) {
                let isHere = event.paths.contains { $0.names == top.names || $0.isBelow(top) }
                guard isHere, let known = event.event.known(to: client.peer, of: volume) else {
                    continue
                }
                client.push(known)
            }
            _ = arbiter
        }
    }

    /// Tells all watchers the volume's new identity; nil after signing out.
    func tell(identity token: String?) {
        var event = WatchEvent(
            .identity, path: RawText(path: []), time: cl_clock_realtime_ns(), process: getpid(),
            program: session.program(getpid()))
        event.token = token
        for watcher in clients.withLock({ $0.values.compactMap(\.watcher) }) {
            watcher.push(event)
        }
    }

    /// Tells all watchers of a document that one of its versions is in conflict.
    func tell(conflictOf names: [Name]) {
        tell(.conflict, of: names)
    }

    /// Whether a client watches where contents are.
    var areContentsWatched: Bool {
        clients.withLock { $0.values.contains { $0.watchesContents } }
            || arbiter.presenters().contains { $0.hears.contains(.ubiquityAttributes) }
    }

    /// Tells those who watch where contents are that it has changed for a document, or for any
    /// documents if the path is that of the root.
    func tell(contentsOf names: [Name]) {
        tell(.contents, of: names, to: { $0.watchesContents })
        tell(ubiquityOf: names)
    }

    /// Tells the presenters of a document that observe it, or of all documents if the path is that
    /// of the root, that it may have changed what is known about its contents.
    func tell(ubiquityOf names: [Name]) {
        let place = names.isEmpty ? nil : session.path(names)
        for presenter in arbiter.presenters(of: place)
        where presenter.hears.contains(.ubiquityAttributes) {
            clients.withLock { _ = $0.push(.ubiquityChanged, to: presenter.id) }
        }
    }

    func tell(
        _ kind: WatchEvent.Kind, of names: [Name],
        to isMeant: (ClaimClient) -> Bool = { _ in true },
        completing complete: (inout WatchEvent) -> Void = { _ in }
    ) {
        let path = session.path(names)
        var event = WatchEvent(
            kind, path: RawText(path: names), time: cl_clock_realtime_ns(), process: 0,
            program: "")
        complete(&event)
        let watchers = clients.withLock {
            $0.values.filter(isMeant).compactMap { clientSession in
                clientSession.watcher.flatMap { watcher in
                    clientSession.watched.map { (watcher, $0) }
                }
            }
        }
        for (watcher, top) in watchers
        where names.isEmpty || path.names == top.names || path.isBelow(top) {
            if let known = event.known(to: watcher.peer, of: volume) { watcher.push(known) }
        }
    }

    private struct Sighting {
        var paths: [Path]
        var event: WatchEvent
    }

    private static func events(_ note: Arbiter.Note, _ session: MountSession) -> [Sighting] {
        func sighting(
            _ kind: WatchEvent.Kind, _ path: Path, to: Path? = nil, process: Int32 = 0,
            program: String? = nil
        ) -> Sighting {
            var event = WatchEvent(
                kind, path: RawText(path: path.names), time: cl_clock_realtime_ns(),
                process: process, program: program ?? session.program(process))
            event.to = to.map { RawText(path: $0.names) }
            return Sighting(paths: [path] + (to.map { [$0] } ?? []), event: event)
        }
        switch note {
        case .waiting(let process, let paths):
            return paths.map { sighting(.waiting, $0, process: process) }
        case .claimed(let process, let paths):
            return paths.map { sighting(.claimed, $0, process: process) }
        case .released(let process, let paths):
            return paths.map { sighting(.released, $0, process: process) }
        case .presented(let process, let path):
            return [sighting(.presented, path, process: process)]
        case .retired(let process, let path): return [sighting(.retired, path, process: process)]
        case .happened(let happening, let process, let program):
            switch happening {
            case .changed(let path):
                return [sighting(.changed, path, process: process, program: program)]
            case .appeared(let path):
                return [sighting(.appeared, path, process: process, program: program)]
            case .removed(let path):
                return [sighting(.removed, path, process: process, program: program)]
            case .moved(let from, let to):
                return [sighting(.moved, from, to: to, process: process, program: program)]
            }
        }
    }
}

extension WatchEvent {
    /// The event as this user may see it; nil when they may not know any of its names. A move to a
    /// place they may not see becomes a removal, and a move from there an appearance.
    fileprivate func known(to peer: Peer, of volume: Volume) -> WatchEvent? {
        let isKnown = volume.mayKnow(peer, of: path.path ?? [])
        guard let to else { return isKnown ? self : nil }
        var event = self
        switch (isKnown, volume.mayKnow(peer, of: to.path ?? [])) {
        case (true, true): break
        case (true, false): (event.kind, event.to) = (.removed, nil)
        case (false, true): (event.kind, event.path, event.to) = (.appeared, to, nil)
        case (false, false): return nil
        }
        return event
    }
}

extension LocksReport.Turn {
    init(_ turn: LeaseReport) {
        self.init(
            kind: .plain, state: turn.isWaiting ? .waiting : .granted, access: turn.access,
            path: RawText(path: turn.path), process: turn.process, program: turn.program,
            since: turn.since,
            behind: turn.behind.map {
                LocksReport.Behind(process: $0.process, program: $0.program, why: $0.why)
            })
    }
}
