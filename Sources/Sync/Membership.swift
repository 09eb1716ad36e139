import CLinux
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Synchronization
import Volume

/// Whether a device's volume belongs to a hub, and the engine that keeps both in step while it
/// does.
package final class Membership: @unchecked Sendable {
    private let volume: Volume
    private let tree: any Applying
    private let settings: SyncSettings
    private let log: Logger
    private let secrets: CredentialFile
    private let changed: @Sendable ([Spot]) -> Void
    private let unsafe = Hook<@Sendable (Bool) -> Void>()
    /// Held while a copy of a store becomes a device of its own, and while the engine is stopped.
    private let turn = Mutex<Void>(())
    /// Held while somebody signs in or out: the second one sees what the first has done.
    private let signing = Mutex<Void>(())
    private let isEnded = Atomic<Bool>(false)
    private let isSplitting = Atomic<Bool>(false)
    private let current = Mutex<(account: Account, engine: SyncEngine)?>(nil)

    package init(
        volume: Volume, tree: any Applying, settings: SyncSettings = SyncSettings(), log: Logger,
        changed: @escaping @Sendable ([Spot]) -> Void
    ) {
        self.volume = volume
        self.tree = tree
        self.settings = settings
        self.log = log
        secrets = CredentialFile(store: volume.identity.store)
        self.changed = changed
    }

    package var account: Account? { current.withLock { $0?.account } }
    package var engine: SyncEngine? { current.withLock { $0?.engine } }

    /// Calls `body` with true while something is on this device only and on its way to the hub,
    /// again with each step, and with false when all is there or nothing is sent. To be called
    /// before `start`.
    package func onUnsafe(_ body: @escaping @Sendable (Bool) -> Void) {
        unsafe.set(body)
    }

    // MARK: Life

    /// Goes on where the last daemon stopped, if the volume belongs to a hub.
    package func start() throws(VolumeError) {
        try moveSecrets()
        let known = try secrets.read()
        guard let account = try volume.journal.read({ try Account($0, known) }) else { return }
        try start(account)
    }

    /// Older builds had them in the journal, whose file keeps what was removed from it until it is
    /// written anew.
    private func moveSecrets() throws(VolumeError) {
        let old = try volume.journal.read { try Account.credentials(in: $0) }
        if !old.isEmpty {
            try secrets.write(old)
            try volume.perform { try Account.forgetCredentials($0) }
        }
        guard try volume.journal.read({ try Account.mustOverwrite($0) }) else { return }
        do throws(VolumeError) {
            guard try volume.journal.rewrite() else { return }
            try volume.perform { try Account.didOverwrite($0) }
        } catch {
            log.warning("The journal's file still has old secrets; the next mount tries: \(error)")
        }
    }

    private func start(_ account: Account) throws(VolumeError) {
        let engine = try SyncEngine(
            volume: volume, account: account, tree: tree, settings: settings, log: log,
            changed: changed)
        engine.unsafe = unsafe.current
        engine.connected = { [weak self, weak engine] in
            if let self, let engine { self.renewToken(engine) }
        }
        engine.cloned = { [weak self, weak engine] in
            guard let self, let engine else { return }
            startThread(named: "split") { self.split(engine) }
        }
        current.withLock { $0 = (account, engine) }
        volume.setRemote(engine.hub)
        volume.onArrival { [weak engine] mark in engine?.arrival(of: mark) }
        volume.setHolders { [weak engine] version in engine?.devices(holding: version) }
        engine.start()
    }

    /// A token is replaced long before it is over, so that one that was copied is soon of no use.
    private static let tokenSeconds: Int64 = 7 * 86_400

    /// Only on the engine's thread, which has ended before the credentials change otherwise.
    private func renewToken(_ engine: SyncEngine) {
        guard let age = secrets.age, age > Membership.tokenSeconds,
            var account = current.withLock({ $0?.engine === engine ? $0?.account : nil })
        else { return }
        do {
            account.token = try engine.client.renewToken()
            // Kept before it is used: the old one holds for another day.
            try secrets.write([account.device: account.credentials])
        } catch {
            log.warning("The hub's token is not renewed yet: \(error)")
            return
        }
        engine.client.setToken(account.token)
        let token = account.token
        current.withLock { if $0?.engine === engine { $0?.account.token = token } }
    }

    /// For good. What was not sent stays in the journal.
    package func stop() {
        turn.withLock { _ in
            isEnded.store(true, ordering: .relaxed)
            halt()
        }
    }

    /// Another engine, unless the daemon has ended meanwhile. Others wait for `turn` until it runs.
    private func restart(
        _ account: Account?, _ body: @escaping @Sendable (Transaction) throws -> Void
    ) throws(VolumeError) {
        try turn.withLock { _ throws(VolumeError) in
            guard !isEnded.load(ordering: .relaxed) else {
                throw VolumeError(.cancelled, "The volume is being unmounted.")
            }
            halt()
            try volume.perform { t in try body(t) }
            if let account { try start(account) }
        }
    }

    private func halt() {
        let engine = current.withLock { current in
            defer { current = nil }
            return current?.engine
        }
        volume.setRemote(nil)
        volume.setHolders(nil)
        engine?.stop()
    }

    // MARK: Signing in and out

    /// What is here joins what the hub has: the same names with the same contents are the same
    /// documents, other contents become versions, and nothing is deleted on either side. Where the
    /// hub does not know the device any more, a new code of the same person makes it known again,
    /// and what waits is sent.
    ///
    /// - Parameters:
    ///   - volumeName: Nil: the volume's own name.
    ///   - isInsecure: Also in clear over a network.
    /// - Throws: `.invalid` when signed in already; `.denied`, `.offline`, `.timeout`, `.refused`.
    package func signIn(
        _ address: HubAddress, code: String, deviceName: String?, volumeName: String?,
        isInsecure: Bool = false
    ) throws(VolumeError) -> Account {
        if !isInsecure { try address.refuseClear() }
        return try signing.withLock { _ throws(VolumeError) in
            try join(address, code: code, deviceName: deviceName, volumeName: volumeName)
        }
    }

    private func join(
        _ address: HubAddress, code: String, deviceName: String?, volumeName: String?
    ) throws(VolumeError) -> Account {
        if let account {
            let hasNewCertificate = address.known.map { $0 != account.address.known } ?? false
            if hasNewCertificate || isSignedOutByHub {
                return try signInAgain(account, address, code: code, deviceName: deviceName)
            }
            throw VolumeError(
                .invalid,
                "This volume is signed in to \(account.address) as \(account.user) already: "
                    + "sign out first (fsctl signout).")
        }
        let client = try HubClient(address)
        defer { client.close() }
        let name = deviceName ?? volume.identity.deviceName
        let account: Account
        let session: Session
        do throws(HubFault) {
            (account, session) = try enrol(client, code, name, volumeName)
        } catch {
            throw VolumeError(error)
        }
        try restart(account) { [secrets] t in
            try secrets.write([account.device: account.credentials])
            try t.forgetHub()
            try account.store(t)
            try session.store(t)
            try t.startNoting()
        }
        log.info("signed in to \(address) as \(account.user), volume \(account.volumeName)")
        return account
    }

    private var isSignedOutByHub: Bool {
        guard let engine, case .signedOut = engine.report.connection else { return false }
        return true
    }

    private func signInAgain(
        _ account: Account, _ address: HubAddress, code: String, deviceName: String?
    ) throws(VolumeError) -> Account {
        let client = try HubClient(address)
        defer { client.close() }
        let name = deviceName ?? account.deviceName
        let new: Account
        do throws(HubFault) {
            (new, _) = try enrol(client, code, name, account.volumeName)
        } catch {
            throw VolumeError(error)
        }
        guard new.volume == account.volume, new.device == account.device else {
            throw VolumeError(
                .invalid,
                "This volume belongs to \(account.volumeName) of \(account.user), and the code is "
                    + "\(new.user)'s or another hub's: sign out first (fsctl signout --force), "
                    + "which keeps all that is here.")
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

    /// The store was copied, and the other copy is the device that this one was: it becomes a
    /// device of its own, with all that is here. What was on its way to the hub is sent as that.
    private func split(_ engine: SyncEngine) {
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
            log.error("the copy of a device cannot become one of its own yet: \(error)")
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
                try engine.perform { table in try table.become(new, epoch: answer.epoch) }
                try secrets.write([new.device: new.credentials])
                try volume.become(new.device)
                try start(new)
                log.warning("this store is a copy: it is the device \(new.deviceName) from now on")
            } catch {
                log.error("the copy of a device could not become one of its own: \(error)")
                try? start(account)
            }
        }
    }

    private func enrol(
        _ client: HubClient, _ code: String, _ name: String, _ volumeName: String?
    ) throws(HubFault) -> (Account, Session) {
        let device = volume.identity.device
        let enrolled = try client.enrol(
            EnrolRequest(code: code, deviceName: name, device: device))
        client.setToken(enrolled.token)
        let joined = try client.volume(named: volumeName ?? volume.identity.name)
        let account = Account(
            address: client.address, token: enrolled.token, user: enrolled.user,
            account: enrolled.account, device: enrolled.device, deviceName: name,
            volume: joined.id, volumeName: joined.name,
            keys: VolumeKeys(chunks: joined.chunkKey.bytes, names: joined.nameKey.bytes))
        let session = Session(
            device: enrolled.device, epoch: enrolled.epoch, volumeEpoch: joined.epoch)
        return (account, session)
    }

    /// The volume is a local one again, with all that is here. Nothing here is deleted, also what
    /// was never uploaded.
    ///
    /// - Throws: `.invalid` when not signed in; `.refused` when something is only here and not
    ///   `isForced`.
    package func signOut(isForced: Bool) throws(VolumeError) {
        try signing.withLock { _ throws(VolumeError) in try leave(isForced: isForced) }
    }

    private func leave(isForced: Bool) throws(VolumeError) {
        guard let engine, let account else { throw notSignedIn }
        try checkSignOut(isForced: isForced)
        // The hub may be away: its record of the device can be removed there.
        do throws(HubFault) { try engine.client.signOut() } catch {
            log.warning("signed out here; the hub was not told: \(error)")
        }
        try restart(nil) { t in
            try t.stopNoting()
            try t.forgetHub()
            try Account.forget(t)
        }
        try secrets.remove()
        log.info("signed out of \(account.address)")
    }

    /// Whether `signOut` would be refused now, with the same errors.
    package func checkSignOut(isForced: Bool) throws(VolumeError) {
        guard engine != nil else { throw notSignedIn }
        let waiting = try unsent()
        if waiting > 0, !isForced, let engine, case .signedOut = engine.report.connection {
            throw VolumeError(
                .refused,
                "\(waiting) changes are on this device only, and the hub does not know the device "
                    + "any more: sign in again with a new code (fsctl signin URL) and "
                    + "they are sent, or sign out with --force; they stay here.")
        }
        guard waiting == 0 || isForced else {
            throw VolumeError(
                .refused,
                "\(waiting) changes are on this device only: wait until they are at the hub "
                    + "(fsctl wait --durable hub), or sign out with --force; they stay here.")
        }
    }

    package var notSignedIn: VolumeError {
        VolumeError(
            .invalid,
            "This volume is signed in to no hub: fsctl signin URL does that.")
    }

    // MARK: Questions and orders

    /// Changes that the hub has not confirmed.
    package func unsent() throws(VolumeError) -> Int {
        try volume.perform { t in try t.unsentCount() + t.outboxCount() }
    }

    /// Airplane mode, kept over restarts.
    package func setOffline(_ isOffline: Bool) throws(VolumeError) {
        guard let engine, var account else { throw notSignedIn }
        account.isOffline = isOffline
        let changed = account
        try volume.perform { t in try changed.store(t) }
        current.withLock { $0?.account = changed }
        engine.setOffline(isOffline)
    }

    package func devices() throws(VolumeError) -> DeviceList {
        guard let engine else { throw notSignedIn }
        do throws(HubFault) { return try engine.client.devices() } catch {
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
    /// How much there is still to do.
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
                unsent: try reader.unsentCount(), outbox: try reader.outboxCount(),
                due: try reader.mirrorCount(.due) + reader.mirrorCount(.underway),
                stuck: try reader.mirrorCount(.stuck), refused: try reader.mirrorCount(.refused),
                absent: try reader.absentCount())
        }
    }
}
