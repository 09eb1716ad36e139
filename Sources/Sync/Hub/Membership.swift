import CLinux
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Synchronization
import Volume

/// The volume's membership in a hub: signing in and out, and the sync engine that runs while it is
/// signed in.
package final class Membership: @unchecked Sendable {
    private let volume: Volume
    private let tree: any Applying
    private let settings: SyncSettings
    private let log: Logger
    private let secrets: CredentialFile
    private let changed: @Sendable ([DirectoryEntry]) -> Void
    private let unsafe = CallbackSlot<@Sendable (Bool) -> Void>()
    private let moved = CallbackSlot<@Sendable (SyncEngine) -> Void>()
    /// Held while the engine is replaced or stopped.
    private let turn = Mutex<Void>(())
    /// Held while a sign-in or sign-out runs, so that a second one sees the result of the first.
    private let signing = Mutex<Void>(())
    private let isEnded = Atomic<Bool>(false)
    /// What a sign-in asks the hub with.
    private let joining = Mutex<HubClient?>(nil)
    private let isSplitting = Atomic<Bool>(false)
    private let current = Mutex<(account: Account, engine: SyncEngine)?>(nil)

    /// To be called before the volume starts: its recorder then asks at once about arrivals that a
    /// crash left in the tree.
    package init(
        volume: Volume, tree: any Applying, settings: SyncSettings = SyncSettings(), log: Logger,
        changed: @escaping @Sendable ([DirectoryEntry]) -> Void
    ) {
        self.volume = volume
        self.tree = tree
        self.settings = settings
        self.log = log
        secrets = CredentialFile(store: volume.identity.store)
        self.changed = changed
        volume.arrivals.onArrival { [journal = volume.journal, secrets] tag, contents in
            Arrival(expectedFor: tag, journal, secrets, contents)
        }
    }

    package var account: Account? { current.withLock { $0?.account } }
    package var engine: SyncEngine? { current.withLock { $0?.engine } }

    /// Calls `body` with true while something exists only on this device and is being sent, and
    /// again with each step; and with false when everything is at the hub or nothing is being sent.
    /// It must be called before `start`.
    package func onUnsafe(_ body: @escaping @Sendable (Bool) -> Void) {
        unsafe.set(body)
    }

    /// Calls `body` when transfers, or what is known about them, may have changed. It must be
    /// called before `start`.
    package func onTransfers(_ body: @escaping @Sendable (SyncEngine) -> Void) { moved.set(body) }

    // MARK: Starting and stopping

    /// Continues where the last daemon stopped, if the volume belongs to a hub.
    package func start() throws(VolumeError) {
        try moveSecrets()
        let known = try secrets.read()
        guard let account = try volume.journal.read({ try Account($0, known) }) else { return }
        try start(account)
    }

    /// Moves the secrets of older versions out of the journal. Then the journal's file must be
    /// rewritten, because SQLite keeps deleted bytes in free pages.
    private func moveSecrets() throws(VolumeError) {
        let old = try volume.journal.read { try Account.credentials(in: $0) }
        if !old.isEmpty {
            try secrets.write(old)
            try volume.recorder.perform { _, t in try Account.forgetCredentials(t) }
        }
        guard try volume.journal.read({ try Account.mustOverwrite($0) }) else { return }
        do throws(VolumeError) {
            guard try volume.journal.rewrite() else { return }
            try volume.recorder.perform { _, t in try Account.didOverwrite(t) }
        } catch {
            log.warning("The journal's file has old secrets; the next mount tries again: \(error)")
        }
    }

    private func start(_ account: Account) throws(VolumeError) {
        let engine = try SyncEngine(
            volume: volume, account: account, tree: tree, settings: settings, log: log,
            changed: changed)
        engine.events.unsafe = unsafe.current
        engine.events.moved = { [weak self, weak engine] in
            if let self, let engine { self.moved.current?(engine) }
        }
        engine.events.connected = { [weak self, weak engine] in
            if let self, let engine { self.renewToken(engine) }
        }
        engine.events.cloned = { [weak self, weak engine] in
            guard let self, let engine else { return }
            startThread(named: "split") { self.split(engine) }
        }
        current.withLock { $0 = (account, engine) }
        // The mount must be read-only before the engine's thread has begun.
        volume.readOnly.set(!engine.report.standing.maySend)
        volume.downloads.setRemote(engine.hub)
        volume.history.holders.set { [weak engine] version in engine?.devices(holding: version) }
        engine.start()
    }

    /// The age in seconds at which a token is renewed, so that a copied one soon becomes useless.
    private static let tokenSeconds: Int64 = 7 * 86_400

    /// Called only on the engine's thread, which has stopped before the credentials change in
    /// another way. A hub whose clock is far behind would give the token an end that has passed
    /// when the clock is right. A clock of this device that was ahead has left a negative age.
    private func renewToken(_ engine: SyncEngine) {
        let (clock, week) = (engine.journal.clock, Timestamp.span(seconds: Membership.tokenSeconds))
        guard let age = secrets.age, age.magnitude > Membership.tokenSeconds, clock.offset > -week,
            var account = current.withLock({ $0?.engine === engine ? $0?.account : nil })
        else { return }
        do {
            account.token = try engine.client.renewToken(at: clock.now, toHold: week)
            // The new token is stored before it is used; the old one ends when this one is renewed.
            try secrets.write([account.device: account.credentials])
        } catch {
            log.warning("The hub's token could not be renewed yet: \(error)")
            return
        }
        engine.client.setToken(account.token)
        let token = account.token
        current.withLock { if $0?.engine === engine { $0?.account.token = token } }
    }

    /// Stops the engine for good. Unsent changes stay in the journal. A sign-in that waits for the
    /// hub fails.
    package func stop() {
        isEnded.store(true, ordering: .sequentiallyConsistent)
        joining.withLock { $0?.close() }
        turn.withLock { _ in
            halt()
        }
    }

    /// Replaces the engine, unless the daemon is stopping. `turn` is held until the new one runs.
    private func restart(
        _ account: Account?, _ body: @escaping @Sendable (Transaction) throws -> Void
    ) throws(VolumeError) {
        try turn.withLock { _ throws(VolumeError) in
            guard !isEnded.load(ordering: .relaxed) else {
                throw VolumeError(.cancelled, "The volume is being unmounted.")
            }
            halt()
            try volume.recorder.perform { _, t in try body(t) }
            guard let account else { return volume.readOnly.set(false) }
            try start(account)
        }
    }

    private func halt() {
        let engine = current.withLock { current in
            defer { current = nil }
            return current?.engine
        }
        volume.downloads.setRemote(nil)
        volume.history.holders.set(nil)
        engine?.stop()
    }

    // MARK: Signing in and out

    /// Joins the local volume with the hub's: equal names with equal contents become the same
    /// documents, other contents become versions, and nothing is deleted on either side. In the
    /// volume that this one was signed in to last, only what was changed here since then counts as
    /// a change of this device, and what other devices have deleted since then is removed. If the
    /// hub has signed the device out, a new code of the same person signs it in again, and waiting
    /// changes are sent.
    ///
    /// - Parameters:
    /// - volumeName: The volume's name at the hub; nil for the local volume's name.
    /// - owner: The account that owns the volume; nil for the account of the code.
    /// - isInsecure: Whether an unencrypted connection over a network is allowed.
    /// - Throws: `.invalid` if the volume is already signed in; `.denied`, `.offline`, `.timeout`,
    ///   `.refused`.
    package func signIn(
        _ address: HubAddress, code: String, deviceName: String?, volumeName: String?,
        owner: String? = nil, isInsecure: Bool = false
    ) throws(VolumeError) -> Account {
        if !isInsecure { try address.refuseUnencrypted() }
        let wanted = VolumeRequest(name: volumeName ?? volume.identity.name, owner: owner)
        return try signing.withLock { _ throws(VolumeError) in
            try join(address, code: code, deviceName: deviceName, wanted)
        }
    }

    private func join(
        _ address: HubAddress, code: String, deviceName: String?, _ wanted: VolumeRequest
    ) throws(VolumeError) -> Account {
        if let account {
            let hasNewCertificate = address.known.map { $0 != account.address.known } ?? false
            if hasNewCertificate || isSignedOutByHub {
                return try signInAgain(account, address, code: code, deviceName: deviceName)
            }
            throw VolumeError(
                .invalid,
                "This volume is already signed in to \(account.address) as \(account.user): "
                    + "sign out first (fsctl signout).")
        }
        let client = try joiningClient(address)
        defer { end(client) }
        let name = deviceName ?? volume.identity.deviceName
        let account: Account
        let session: Session
        let standing: Standing
        do throws(HubFault) {
            (account, session, standing) = try enrol(client, code, name, wanted)
        } catch {
            throw VolumeError(error)
        }
        recordEarlierChanges()
        try restart(account) { [secrets] t in
            try secrets.write([account.device: account.credentials])
            var session = session
            try t.rejoin(account.volume, &session)
            try account.store(t)
            try session.store(t)
            try standing.store(t)
            try t.startChangeTracking()
        }
        log.info("signed in to \(address) as \(account.user), volume \(account.volumeName)")
        return account
    }

    /// Waits for a moment until what was saved and removed before is recorded. Otherwise contents
    /// that were removed while the volume was signed out could be recorded after the document came
    /// back from the hub, as if they were newer.
    private func recordEarlierChanges() {
        do throws(VolumeError) {
            try volume.safety.wait(for: .disk, at: [], timeoutSeconds: 5)
        } catch {
            log.notice("The volume is signed in before everything is recorded: \(error)")
        }
    }

    private var isSignedOutByHub: Bool {
        guard let engine, case .signedOut = engine.report.connection else { return false }
        return true
    }

    private func signInAgain(
        _ account: Account, _ address: HubAddress, code: String, deviceName: String?
    ) throws(VolumeError) -> Account {
        let client = try joiningClient(address)
        defer { end(client) }
        let name = deviceName ?? account.deviceName
        let new: Account
        do throws(HubFault) {
            (new, _, _) = try enrol(client, code, name, account.volumeRequest)
        } catch {
            throw VolumeError(error)
        }
        guard new.volume == account.volume, new.device == account.device else {
            throw VolumeError(
                .invalid,
                "This volume belongs to \(account.volumeName) of \(account.user), but the code is "
                    + "\(new.user)'s or another hub's: sign out first (fsctl signout --force), "
                    + "which deletes nothing here.")
        }
        var renewed = new
        renewed.isOffline = account.isOffline
        let changed = renewed
        try restart(changed) { [secrets] t in
            try secrets.write([changed.device: changed.credentials])
            try changed.store(t)
        }
        log.info("signed in to \(address) again as \(changed.user)")
        return changed
    }

    /// Makes this store a separate device, because it was copied and another process is the
    /// original device. Everything stays, and waiting changes are sent in the new device's name.
    private func split(_ engine: SyncEngine) {
        guard !PlantedFault.neverSplits.isPlanted else { return }
        guard let account, !isSplitting.exchange(true, ordering: .relaxed) else { return }
        defer { isSplitting.store(false, ordering: .relaxed) }
        var own = account
        let suffix = " (copy)"
        if !own.deviceName.hasSuffix(suffix) { own.deviceName += suffix }
        let answer: EnrolAnswer
        do throws(HubFault) {
            answer = try engine.client.split(
                SplitRequest(device: .random(), deviceName: own.deviceName))
        } catch {
            log.error("the copy of a device cannot be signed in separately yet: \(error)")
            return
        }
        (own.device, own.token) = (answer.device, answer.token)
        let new = own
        turn.withLock { _ in
            guard self.engine === engine else { return }
            halt()
            do throws(VolumeError) {
                try secrets.write([
                    account.device: account.credentials, new.device: new.credentials,
                ])
                try engine.journal.perform { table in try new.takeOver(&table, epoch: answer.epoch)
                }
                try secrets.write([new.device: new.credentials])
                try volume.become(new.device)
                try start(new)
                log.warning("this store is a copy: it is now the device \(new.deviceName)")
            } catch {
                log.error("the copy of a device could not be signed in separately: \(error)")
                try? start(account)
            }
        }
    }

    /// A client that `stop` closes. `signing` is held, so there is only one.
    private func joiningClient(_ address: HubAddress) throws(VolumeError) -> HubClient {
        let client = try HubClient(address)
        joining.withLock { $0 = client }
        if isEnded.load(ordering: .sequentiallyConsistent) { client.close() }
        return client
    }

    private func end(_ client: HubClient) {
        joining.withLock { $0 = nil }
        client.close()
    }

    private func enrol(
        _ client: HubClient, _ code: String, _ name: String, _ wanted: VolumeRequest
    ) throws(HubFault) -> (Account, Session, Standing) {
        let device = volume.identity.device
        let enrolled = try client.enrol(
            EnrolRequest(
                code: code, deviceName: name, device: device,
                volume: wanted.owner == nil ? nil : wanted))
        client.setToken(enrolled.token)
        let joined = try client.volume(wanted)
        let account = Account(
            address: client.address, token: enrolled.token, user: enrolled.user,
            account: enrolled.account, device: enrolled.device, deviceName: name,
            volume: joined.id, volumeName: joined.name, owner: joined.owner,
            keys: VolumeKeys(chunks: joined.chunkKey.bytes, names: joined.nameKey.bytes))
        let session = Session(
            device: enrolled.device, epoch: enrolled.epoch, volumeEpoch: joined.epoch)
        // The first page of changes says how many members there are.
        let standing = Standing(role: joined.role ?? .owner, members: joined.owner == nil ? 1 : 2)
        return (account, session, standing)
    }

    /// Signs the volume out. It becomes a local volume again with all of its contents, including
    /// changes that were never uploaded.
    ///
    /// - Throws: `.invalid` if the volume is not signed in; `.refused` if something exists only on
    ///   this device and `isForced` is false.
    package func signOut(isForced: Bool) throws(VolumeError) {
        try signing.withLock { _ throws(VolumeError) in try leave(isForced: isForced) }
    }

    private func leave(isForced: Bool) throws(VolumeError) {
        guard let engine, let account else { throw notSignedIn }
        try checkSignOut(isForced: isForced)
        // The hub may be unreachable. Its record of this device can be removed there later.
        do throws(HubFault) { try engine.client.signOut() } catch {
            log.warning("signed out here; the hub could not be told: \(error)")
        }
        let (clock, tree) = (engine.journal.clock, volume.root)
        try restart(nil) { t in
            try t.leave(account, clock, tree: tree)
            try Account.forget(t)
        }
        try secrets.remove()
        try volume.recorder.record(as: nil)
        log.info("signed out of \(account.address)")
    }

    /// Throws the same errors that `signOut` would throw now.
    package func checkSignOut(isForced: Bool) throws(VolumeError) {
        guard let engine else { throw notSignedIn }
        guard !isForced else { return }
        let (waiting, deleted) = try volume.recorder.perform { _, t in try t.hub.unconfirmedItems()
        }
        guard waiting > 0 else { return }
        let deletions = deleted == 0 ? "" : ", \(deleted) of them deletions"
        let stay =
            "they stay here"
            + (deleted == 0 ? "." : ", but what was deleted comes back when you sign in again.")
        let what = "\(waiting) changes are on this device only\(deletions)"
        if let reason = reasonToKeep {
            throw VolumeError(.refused, "\(what). \(reason) Sign out with --force; \(stay)")
        }
        if case .signedOut = engine.report.connection {
            throw VolumeError(
                .refused,
                "\(what), and the hub no longer knows this device: sign in again with a new code "
                    + "(fsctl signin URL) and they are sent, or sign out with --force; \(stay)")
        }
        throw VolumeError(
            .refused,
            "\(what): wait until they are at the hub (fsctl wait --durable hub), or sign out with "
                + "--force; \(stay)")
    }

    package var notSignedIn: VolumeError {
        VolumeError(
            .invalid,
            "This volume is not signed in to a hub: use fsctl signin URL.")
    }

    // MARK: Queries and settings

    /// Returns the number of items with changes that the hub has not confirmed.
    package func unsent() throws(VolumeError) -> Int {
        try volume.recorder.perform { _, t in try t.hub.unconfirmedItems().all }
    }

    /// Switches synchronisation off or on. The setting survives a restart.
    package func setOffline(_ isOffline: Bool) throws(VolumeError) {
        guard let engine, var account else { throw notSignedIn }
        account.isOffline = isOffline
        let changed = account
        try volume.recorder.perform { _, t in try changed.store(t) }
        current.withLock { $0?.account = changed }
        engine.setOffline(isOffline)
    }

    package func devices() throws(VolumeError) -> DeviceList {
        guard let engine else { throw notSignedIn }
        do throws(HubFault) { return try engine.client.devices() } catch {
            throw VolumeError(error)
        }
    }

    /// Why changes that were made here will not reach the hub; nil if they will.
    package var reasonToKeep: String? {
        guard let report = engine?.report else { return nil }
        if case .removed(let reason) = report.connection { return reason }
        return report.standing.maySend
            ? nil
            : "You may only read this volume, so they are not sent. The volume's owner can make "
                + "you an editor (fsctl members role)."
    }

    /// The volumes of this account and those of others that it may use.
    package func volumes() throws(VolumeError) -> VolumeList {
        guard let engine else { throw notSignedIn }
        do throws(HubFault) { return try engine.client.volumes() } catch {
            throw VolumeError(error)
        }
    }

    package func members() throws(VolumeError) -> MemberList {
        guard let engine, let account else { throw notSignedIn }
        do throws(HubFault) { return try engine.client.members(account.volume) } catch {
            throw VolumeError(error)
        }
    }

    package func change(_ request: MemberRequest) throws(VolumeError) -> MemberList {
        guard let engine, let account else { throw notSignedIn }
        if let objection = request.objection { throw VolumeError(.invalid, objection) }
        do throws(HubFault) { return try engine.client.change(account.volume, request) } catch {
            throw VolumeError(error)
        }
    }

    package func revoke(_ device: Identifier) throws(VolumeError) {
        guard let engine else { throw notSignedIn }
        do throws(HubFault) { try engine.client.revoke(device) } catch {
            throw VolumeError(error)
        }
    }
}

extension SyncEngine {
    /// The numbers of items that wait, by reason.
    package struct Backlog: Sendable {
        package var unsent: Int
        package var outbox: Int
        package var due: Int
        package var stuck: Int
        package var refused: Int
        package var absent: Int
    }

    package func backlog() throws(VolumeError) -> Backlog {
        try volume.journal.read { reader in
            Backlog(
                unsent: try reader.hub.unsentCount(), outbox: try reader.hub.outboxCount(),
                due: try reader.hub.mirrorCount(.due) + reader.hub.mirrorCount(.underway),
                stuck: try reader.hub.mirrorCount(.stuck),
                refused: try reader.hub.mirrorCount(.refused),
                absent: try reader.absentCount())
        }
    }
}
