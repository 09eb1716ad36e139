import Control
import Coordination
import Glibc
import Model
import Mount
import Synchronization
import Volume

/// Serves the claims and presenters of the control socket's clients. Each connection is one party
/// of the arbiter.
final class ClaimService: Sendable {
    let arbiter: Arbiter
    let session: MountSession
    let volume: Volume
    let clients = Mutex<[UInt64: ClaimClient]>([:])
    let evictions = EvictionQuestions()
    let everywhere = EverywhereClaims()

    init(arbiter: Arbiter, session: MountSession, volume: Volume) {
        self.arbiter = arbiter
        self.session = session
        self.volume = volume
    }

    func hear(_ request: Control.Request, from client: Connection) throws(VolumeError) {
        let clientSession = clientSession(of: client)
        switch try request.known() {
        case .claim: try claim(request, client, clientSession, isPreparing: false)
        case .prepare: try claim(request, client, clientSession, isPreparing: true)
        case .release: try release(request, client)
        case .cancel:
            let id = try claimID(request, client)
            client.reply(request)
            clients.withLock { _ = $0[client.number]?.downloading.remove(id) }
            everywhere.cancel(id)
            arbiter.step(.cancelled(id))
        case .moved: try move(request, client)
        case .present: try present(request, client, clientSession)
        case .retire:
            let (number, id) = try presenterID(request, client)
            clients.withLock { $0[client.number]?.remove(presenter: number) }
            arbiter.retire(id)
            evictions.leave([id])
            volume.openDocuments.poke()
            client.reply(request)
        case .answer:
            let (_, id) = try presenterID(request, client)
            guard let turn = request.turn else { throw request.missing("turn") }
            let claim = ClaimID(UInt64(clamping: turn))
            if !evictions.answer(id, claim, request.failure) {
                arbiter.step(.answered(id, claim, failure: request.failure))
            }
            client.reply(request)
        case .locks: try locks(request, client)
        case .watch: try watch(request, client, clientSession)
        default: throw VolumeError(.invalid, "\"\(request.verb)\" is not about turns")
        }
    }

    func left(_ client: Connection) {
        defer { volume.openDocuments.poke() }
        guard let gone = clients.withLock({ $0.removeValue(forKey: client.number) }) else { return }
        evictions.leave(gone.presenters.values)
        for id in gone.claims.values { written(by: id).map(tell) }
        gone.claims.values.forEach(everywhere.end)
        arbiter.leave(gone.clientSession)
    }

    private func clientSession(of client: Connection) -> ClientSession {
        if let clientSession = clients.withLock({ $0[client.number]?.clientSession }) {
            return clientSession
        }
        let clientSession = arbiter.join(process: client.peer.process)
        clients.withLock {
            $0[client.number] = ClaimClient(client, clientSession: clientSession)
        }
        return clientSession
    }

    // MARK: Claims

    private func claim(
        _ request: Control.Request, _ client: Connection, _ clientSession: ClientSession,
        isPreparing: Bool
    ) throws(VolumeError) {
        guard let number = request.claim else { throw request.missing("claim") }
        guard let accesses = request.access, !accesses.isEmpty else {
            throw request.missing("access")
        }
        guard accesses.count <= Limits.accessesMax else {
            throw VolumeError(
                .invalid, "a claim is about \(Limits.accessesMax) items at most; claim a directory")
        }
        try act(for: request, client, clientSession)
        var targets: [ClaimRequest.Target] = []
        for access in accesses { targets.append(try target(access, request, client.peer)) }
        let turn = ClaimRequest(
            targets, manner: isPreparing ? .preparing : .coordinated,
            purposes: Set((request.purposes ?? []).map(Purpose.init)),
            presenters: try presenters(request, client), clientSession: clientSession,
            isTry: request.try ?? false)
        let id = arbiter.reserve()
        let names = targets.reduce(0) { $0 + $1.path.steps.count }
        try clients.withLock { c throws(VolumeError) in try c.admit(names, of: client) }
        let isTaken = clients.withLock { clients -> Bool in
            // The client is changed in place, because copying a table of thousands of claims is
            // slow.
            clients[client.number]?.add(claim: number, id, names: names) ?? false
        }
        guard isTaken else {
            throw VolumeError(
                .invalid,
                "this connection already has a claim \(number), too many claims or too deep ones: "
                    + "release one first")
        }
        let mustDownload = !isPreparing && mustDownload(targets, for: client.peer)
        everywhere.begin((number, id), of: turn, request, client, self) { [self, targets] in
            arbiter.request(turn, as: id) { [self, targets] _, outcome in
                switch outcome {
                case .granted(let paths):
                    if isPreparing { forget(number, client) }
                    session.willChange(
                        paths.enumerated().filter { turn.isWriting($0.offset) }.map(\.element))
                    guard !mustDownload else {
                        return download(paths, of: targets, for: (number, id), request, client)
                    }
                    grant(paths, request, client)
                case .refused(let refusal):
                    forget(number, client)
                    client.refuse(request, refusal.error)
                }
            }
            if targets.contains(where: \.access.isWriting) { session.stopWaitingForYielding(id) }
        }
    }

    func grant(_ paths: [Path], _ request: Control.Request, _ client: Connection) {
        client.reply(request, GrantReport(paths: paths.map { RawText(path: $0.names) }))
        volume.openDocuments.poke()
    }

    func forget(_ number: Int, _ client: Connection) {
        clients.withLock { clients in
            guard let id = clients[client.number]?.remove(claim: number) else { return }
            clients[client.number]?.downloading.remove(id)
            everywhere.end(id)
        }
    }

    private func target(_ access: AccessField, _ request: Control.Request, _ peer: Peer)
        throws(VolumeError) -> ClaimRequest.Target
    {
        var names = try request.components(of: access.path)
        switch (access.read, access.write) {
        case (let options?, nil):
            if options.contains(.resolvesSymbolicLink) { names = try session.resolve(names) }
            let mayWrite = peer.isOwner || volume.mayAccess(peer, names, write: true)
            return ClaimRequest.Target(
                .read(.init(options)), session.path(names), yields: !mayWrite)
        case (nil, let way?):
            let option = Access.WritingOption(rawValue: way.rawValue) ?? .update
            return ClaimRequest.Target(.write(option), session.path(names))
        default:
            throw VolumeError(
                .invalid,
                "an access needs either a read or a write: \"read\": [] or \"write\": \"update\"")
        }
    }

    private func presenters(_ request: Control.Request, _ client: Connection) throws(VolumeError)
        -> Set<PresenterID>
    {
        var found: Set<PresenterID> = []
        for number in request.presenters ?? [] {
            guard let id = clients.withLock({ $0[client.number]?.presenters[number] }) else {
                throw VolumeError(.notFound, "this connection has no presenter \(number)")
            }
            found.insert(id)
        }
        return found
    }

    private func claimID(_ request: Control.Request, _ client: Connection) throws(VolumeError)
        -> ClaimID
    {
        guard let number = request.claim else { throw request.missing("claim") }
        guard let id = clients.withLock({ $0[client.number]?.claims[number] }) else {
            throw VolumeError(.notFound, "this connection has no claim \(number)")
        }
        return id
    }

    private func release(_ request: Control.Request, _ client: Connection) throws(VolumeError) {
        let id = try claimID(request, client)
        guard let written = written(by: id) else {
            throw VolumeError(
                .invalid, "claim \(request.claim ?? 0) is not granted yet: cancel it instead")
        }
        forget(request.claim ?? 0, client)
        session.record(packagesOf: written.paths) { [self] in
            tell(written)
            arbiter.step(.released(id))
            volume.openDocuments.poke()
            client.reply(request)
        }
    }

    /// What a claim may have changed, and the presenters that need not be told of it.
    private struct Written: Sendable {
        var paths: [Path]
        var presenters: Set<PresenterID>
        var process: Int32
    }

    /// Nil when the claim is not granted.
    private func written(by id: ClaimID) -> Written? {
        guard let (request, paths) = arbiter.granted(id) else { return nil }
        return Written(
            paths: paths.enumerated().filter { request.isWriting($0.offset) }.map(\.element),
            presenters: request.presenters, process: arbiter.process(request.clientSession))
    }

    /// Tells presenters what a claim has changed, before the claim ends.
    private func tell(_ written: Written) {
        session.didChange(written.paths, by: written.presenters, process: written.process)
    }

    private func move(_ request: Control.Request, _ client: Connection) throws(VolumeError) {
        guard let to = request.to else { throw request.missing("to") }
        let (from, there) = (try request.components(), try request.components(of: to))
        let id = try claimID(request, client)
        guard let (turn, _) = arbiter.granted(id) else {
            throw VolumeError(.invalid, "\"moved\" is only valid while the claim is granted")
        }
        arbiter.tell(
            .moved(from: session.path(from), to: session.path(there)), by: turn.presenters,
            process: client.peer.process, program: "")
        client.reply(request)
    }

    /// Lets the connection act for the process that the request names, which must be an ancestor of
    /// the one that connected.
    private func act(
        for request: Control.Request, _ client: Connection, _ clientSession: ClientSession
    ) throws(VolumeError) {
        guard let process = request.process, process != client.peer.process else { return }
        guard MountSession.isAncestor(process, of: client.peer.process) else {
            throw VolumeError(
                .denied, "process \(process) is not an ancestor of yours (\(client.peer.process))")
        }
        arbiter.become(clientSession, process: process)
    }

    // MARK: Presenters

    private func present(
        _ request: Control.Request, _ client: Connection, _ clientSession: ClientSession
    ) throws(VolumeError) {
        guard let number = request.presenter else { throw request.missing("presenter") }
        let names = try request.components()
        try act(for: request, client, clientSession)
        let isFree = clients.withLock { clients in
            clients[client.number]?.hasRoom(forPresenter: number, names: names.count) ?? true
        }
        guard isFree else {
            throw VolumeError(
                .invalid,
                "this connection already has a presenter \(number), or too many: retire one first")
        }
        try clients.withLock { c throws(VolumeError) in try c.admit(names.count, of: client) }
        var hears: Presenter.Capabilities = []
        for word in request.hears ?? [] {
            guard let kind = PresenterMessage.Kind(rawValue: word) else {
                let all = PresenterMessage.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                throw VolumeError(.invalid, "\"\(word)\" is not a message; the messages are \(all)")
            }
            hears.formUnion(kind.capability)
        }
        let path = session.path(names)
        let isPackage = path.steps.last?.isPackage ?? false
        let presenter = Presenter(
            path, isDirectory: session.isDirectory(names) && !isPackage, hears: hears,
            clientSession: clientSession)
        let id = arbiter.present(presenter) { [volume, session] message, process in
            var message = PresenterMessage(message, to: number)
            if message.kind == .accommodateDeletion, let process {
                message.plain = !session.isApplier(process)
            }
            if let known = message.known(to: client.peer, of: volume) { client.push(known) }
        }
        clients.withLock {
            $0[client.number]?.add(presenter: number, id, names: names.count)
        }
        volume.openDocuments.poke()
        client.reply(request)
    }

    private func presenterID(_ request: Control.Request, _ client: Connection) throws(VolumeError)
        -> (Int, PresenterID)
    {
        guard let number = request.presenter else { throw request.missing("presenter") }
        guard let id = clients.withLock({ $0[client.number]?.presenters[number] }) else {
            throw VolumeError(.notFound, "this connection has no presenter \(number)")
        }
        return (number, id)
    }
}

extension Connection {
    func reply(_ request: Control.Request, _ value: some Codable & Sendable = Nothing()) {
        push(json(Reply(id: request.id, result: value)) + [UInt8(ascii: "\n")])
    }

    func refuse(_ request: Control.Request, _ error: VolumeError) {
        push(json(Reply<Nothing>(id: request.id, error: error)) + [UInt8(ascii: "\n")])
    }

    func push(_ message: PresenterMessage) {
        push(json(Push(message: message)) + [UInt8(ascii: "\n")])
    }

    func push(_ event: WatchEvent) { push(json(Push(event: event)) + [UInt8(ascii: "\n")]) }
}
