import CLinux
import ChunkStore
import Coordination
import Glibc
import HubProtocol
import Logging
import Model
import Synchronization

/// The hub's operations, independent of HTTP: it decides on operations, stores chunks and announces
/// changes. All calls are safe from any task.
package final class Hub: Sendable {
    package let directory: DataDirectory
    package let ledger: any Ledger
    package let blobs: any BlobStore
    package let log: Logger
    package let clock: @Sendable () -> Int64
    package let feeds = Feeds()
    package let leases: Leases
    package let grants: Grants
    /// A move of this hub to another place.
    let move: MoveWatch
    package let metrics = Metrics()
    let gate = UploadGate()
    let enrolments = RateLimit(limit: 10, seconds: 60)
    let passwords = KnownPasswords()
    /// The same for the secrets of links' addresses.
    let linkTokens = KnownPasswords()
    let passkeySecret = Mutex<[UInt8]?>(nil)
    /// Limits how often an account may name users that do not exist.
    let memberNames = RateLimit(limit: 10, seconds: 60)
    let packs = PackSizes()
    let crowded = CrowdedDocuments()
    let processes = Processes()
    let bodies: SharedBudget<Identifier>
    /// The same for the visitors of links, by the accounts that made the links. Anybody can be a
    /// visitor, so they take nothing from the accounts.
    let visitorBodies: SharedBudget<Identifier>
    /// Held while a transaction writes.
    let turns: RoundRobinLock
    /// Held by what needs much processor time or memory, so that no account can take all of either.
    package let perAccountLock = KeyedLock()
    /// The same for the visitors of all links that an account has made.
    let visitorLock = KeyedLock()
    /// Held by a commit of a device that has no journal of its own: the numbers of its operations
    /// have no gaps, so its requests commit one after another.
    let perDeviceLock = KeyedLock()
    /// Limits the pages that exceed `HubLimits.pageBytes` to one at a time.
    let largePageLock = RoundRobinLock()
    package let limits: CallerLimits
    private let committers = Mutex<[Identifier: Committer]>([:])
    private let lock: DataLock
    let witness: HeadRecord
    let parts: PartsCheck
    let outage = Outage()
    let headsChanged = Atomic<Bool>(true)
    /// The bytes of chunks that are being written to the disk, by account.
    let incomingBytes = Mutex<[Identifier: UInt64]>([:])

    /// Opens the hub in a directory, or creates one.
    ///
    /// - Parameter rebuilds: Whether the hub starts although its ledger or packs are missing.
    /// - Throws: `.busy` if a hub runs on the directory; `.damaged` also if a part is missing;
    ///   `.newer`, `.full`, `.denied`.
    package convenience init(
        opening directory: DataDirectory, rebuilds: Bool = false,
        limits: CallerLimits = CallerLimits(), log: Logger,
        clock: @escaping @Sendable () -> Int64 = Hub.now,
        uptime: @escaping @Sendable () -> Int64 = Hub.uptime
    ) async throws {
        let isNew = try directory.make()
        let lock = try directory.lock()
        let ledger = try directory.openLedger(mayCreate: true, rebuilds: rebuilds)
        try await MoveWatch.begin(ledger)
        let blobs = try directory.openBlobs(ledger, log)
        if isNew {
            log.notice("created a new hub", metadata: ["data": "\(directory.path)"])
        }
        try await self.init(
            directory: directory, lock: lock, ledger: ledger, blobs: blobs,
            isAlone: directory.blobSource == nil, rebuilds: rebuilds, limits: limits, log: log,
            clock: clock, uptime: uptime)
    }

    /// - Parameter isAlone: Whether no other hub may use the ledger, because it would have other
    ///   blobs.
    init(
        directory: DataDirectory, lock: DataLock, ledger: any Ledger, blobs: any BlobStore,
        isAlone: Bool = true,
        rebuilds: Bool = false, limits: CallerLimits = CallerLimits(), log: Logger,
        clock: @escaping @Sendable () -> Int64,
        uptime: @escaping @Sendable () -> Int64 = Hub.uptime
    ) async throws {
        self.directory = directory
        self.lock = lock
        self.ledger = ledger
        self.blobs = blobs
        self.log = log
        self.clock = clock
        leases = Leases(ledger, feeds, uptime: uptime)
        turns = RoundRobinLock(places: ledger.parallelWrites)
        grants = Grants(
            ledger, feeds, turns, duration: GrantTimes.shortened ?? LeaseTerms.duration,
            clock: clock, uptime: uptime)
        move = MoveWatch(uptime: uptime)
        self.limits = limits
        let visitors = limits.bodyBytes / 4
        bodies = SharedBudget(
            all: limits.bodyBytes - visitors, each: limits.bodyBytesPerAccount)
        visitorBodies = SharedBudget(all: visitors, each: limits.bodyBytesPerAccount)
        witness = HeadRecord(path: directory.headsPath)
        parts = PartsCheck(
            directory: directory, ledger: ledger, blobs: blobs, rebuilds: rebuilds, log: log)
        try await ledger.join(isAlone: isAlone)
        let isOlder = try await parts.join()
        try await detectRestoredLedger(isOlder: isOlder)
        try await ledger.recountUsage()
    }

    /// Nanoseconds since 1970.
    package static let now: @Sendable () -> Int64 = {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(seconds: time.tv_sec, nanoseconds: time.tv_nsec).nanoseconds
    }

    /// Nanoseconds since the machine was started.
    package static let uptime: @Sendable () -> Int64 = { cl_clock_boottime_ns() }

    package func close() async throws {
        await recordHeads()
        do { if move.departure == nil { try await parts.advance() } } catch {
            log.error("the parts of the hub could not be marked: \(error)")
        }
        await blobs.close()
        try ledger.close()
        lock.release()
    }

    /// Begins new epochs in the volumes of a ledger that is a backup, or older than the recorded
    /// heads or the blobs.
    private func detectRestoredLedger(isOlder: Bool) async throws {
        let witness = self.witness
        let renewed = try await ledger.write { transaction in
            let volumes = try transaction.volumes()
            let isBackup = try transaction.fact(Fact.isBackup) != nil
            let restored = isBackup || isOlder ? volumes : witness.restored(volumes)
            for volume in restored { _ = try transaction.renewEpoch(of: volume.id) }
            if isBackup { try transaction.removeFact(Fact.isBackup) }
            return restored
        }
        for volume in renewed {
            log.warning(
                "this ledger is an older one: the volume begins a new epoch",
                metadata: ["volume": "\(volume.id)"])
        }
    }

    func committer(of volume: Identifier) -> Committer {
        committers.withLock { committers in
            if let known = committers[volume] { return known }
            let committer = Committer(volume: volume, hub: self)
            committers[volume] = committer
            return committer
        }
    }

    /// Writes the current heads to the file outside of the ledger, if they may have changed.
    func recordHeads() async {
        guard headsChanged.exchange(false, ordering: .relaxed) else { return }
        do {
            try witness.write(try await ledger.read { try $0.volumes() })
        } catch {
            headsChanged.store(true, ordering: .relaxed)
            if let error = error as? VolumeError, error.code == .offline {
                return outage.begin(error, log)
            }
            log.error("the heads could not be written: \(error)")
        }
    }
}

extension Hub {
    /// Writes to the ledger when it is the account's turn, so that an account with many requests
    /// does not make the others wait for all of them. It must not be called in a turn.
    package func write<Result: Sendable>(
        _ scope: WriteScope = .everything, for account: Identifier,
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await turns.take(account) { try await ledger.write(scope, body) }
    }
}

enum Fact {
    /// The ledger is a copy that `backup` made, and no hub has been started on it yet.
    static let isBackup = "backup"
}

/// Limits how often a client may try within a time window.
final class RateLimit: Sendable {
    private let limit: Int
    private let window: Int64
    private let tries = Mutex<[String: [Int64]]>([:])

    init(limit: Int, seconds: Int64) {
        self.limit = limit
        window = Timestamp.span(seconds: seconds)
    }

    /// Counts a try. It counts before its result is known, because a client may send many requests
    /// at once.
    ///
    /// - Returns: False, and nothing is counted, if there were too many before.
    func begin(by who: String, at time: Int64) -> Bool {
        tries.withLock { tries in
            if tries.count > 10_000 { tries = [:] }
            var mine = tries[who, default: []].filter { $0 > time - window }
            defer { tries[who] = mine }
            guard mine.count < limit else { return false }
            mine.append(time)
            return true
        }
    }

    /// The try that began at this time does not count, because it was not wrong.
    func forgive(_ who: String, at time: Int64) {
        tries.withLock { tries in
            guard let index = tries[who]?.firstIndex(of: time) else { return }
            tries[who]?.remove(at: index)
        }
    }
}

/// A cache of the packs' sizes that is at most one second old.
final class PackSizes: Sendable {
    private let known = Mutex<(sizes: [UInt32: UInt64], time: Int64)>(([:], 0))

    /// Returns whether the pack is long enough to contain the chunk. It reads the sizes again if
    /// the cached ones do not show it.
    func hold(_ place: ChunkLocation, in blobs: any BlobStore, at time: Int64) async throws -> Bool
    {
        let end = place.offset + UInt64(place.storedLength)
        let (sizes, asked) = known.withLock { $0 }
        if time - asked < 1_000_000_000, let size = sizes[place.pack], size >= end { return true }
        let fresh = try await blobs.packs()
        known.withLock { $0 = (fresh, time) }
        return fresh[place.pack].map { $0 >= end } ?? false
    }
}
