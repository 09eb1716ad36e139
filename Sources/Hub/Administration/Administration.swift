import HubProtocol
import Logging
import Model

/// The operations of the `concord hub` subcommands on a hub's data directory. The hub may be
/// running.
package struct Administration: Sendable {
    let directory: DataDirectory
    let ledger: any Ledger
    let clock: @Sendable () -> Int64

    /// - Parameter mayCreate: Whether a new hub is created if the directory has none.
    /// - Throws: `.notFound`, `.damaged`, `.newer`, `.denied`.
    package init(
        _ directory: DataDirectory, mayCreate: Bool = false,
        clock: @escaping @Sendable () -> Int64 = Hub.now
    ) throws(VolumeError) {
        self.directory = directory
        self.clock = clock
        if mayCreate { _ = try directory.make() }
        ledger = try directory.openLedger(mayCreate: mayCreate)
    }

    package func close() throws { try ledger.close() }

    func openBlobs() throws(VolumeError) -> any BlobStore {
        try directory.openBlobs(ledger, Logger(label: "hub"))
    }

    // MARK: Accounts

    package func accounts() async throws -> [Account] {
        try await ledger.read { try $0.accounts() }
    }

    /// - Throws: `.notFound`.
    package func account(_ name: String) async throws -> Account {
        try await ledger.read { try $0.existingAccount(name) }
    }

    package func addAccount(_ name: String, quota: UInt64?) async throws {
        guard !name.isEmpty, name.utf8.count <= HubLimits.nameBytes,
            !name.unicodeScalars.contains(where: { $0.value <= 32 || $0.value == 127 })
        else {
            throw VolumeError(
                .invalid,
                "A user's name has 1 to \(HubLimits.nameBytes) bytes, no spaces and no control "
                    + "characters.")
        }
        let time = clock()
        try await ledger.write { transaction in
            guard try transaction.account(named: name) == nil else {
                throw VolumeError(.invalid, "The user \(name) exists already.")
            }
            try transaction.addAccount(.random(), name: name, quota: quota, at: time)
        }
    }

    package func setQuota(of name: String, _ quota: UInt64?) async throws {
        try await ledger.write {
            try $0.setQuota(of: try $0.existingAccount(name).id, quota)
        }
    }

    /// - Parameter withVolumes: Whether the account's volumes are removed as well. If false, an
    ///   account that has volumes is refused.
    package func removeAccount(_ name: String, withVolumes: Bool) async throws {
        try await ledger.write { transaction in
            let account = try transaction.existingAccount(name)
            let volumes = try transaction.volumes(of: account.id)
            guard withVolumes || volumes.isEmpty else {
                throw VolumeError(
                    .invalid,
                    "\(name) has \(volumes.count) volumes here with \(account.used) bytes, "
                        + "which would be removed for good: say --with-volumes to mean that.")
            }
            try Owners.set(account.id, false, transaction)
            try transaction.removeAccount(account.id)
        }
    }

    /// Returns a new code that enrols one device within seven days.
    package func invite(_ name: String) async throws -> String {
        let (code, expires) = (Secret.code(), clock() + Timestamp.span(seconds: 7 * 86_400))
        try await ledger.write {
            try $0.devices.addInvite(
                Secret.hash(code: code), account: try $0.existingAccount(name).id,
                expires: expires)
        }
        return code
    }

    // MARK: Devices

    package func devices() async throws -> [(user: String, device: DeviceEntry)] {
        try await ledger.read { transaction in
            try transaction.accounts().flatMap { account in
                try transaction.devices.entries(of: account.id).map { (account.name, $0) }
            }
        }
    }

    /// - Parameter device: The device's id, or a unique prefix of its id, or its unique name.
    package func revoke(_ device: String) async throws -> DeviceEntry {
        let found = try await devices().map(\.device).filter {
            $0.id.description.hasPrefix(device) || $0.name == device
        }
        guard let only = found.first, found.count == 1 else {
            throw VolumeError(
                found.isEmpty ? .notFound : .invalid,
                found.isEmpty
                    ? "There is no device \(device): concord hub devices lists them."
                    : "\(found.count) devices are called \(device): give the id of one.")
        }
        let time = clock()
        _ = try await ledger.write { try $0.devices.revoke(only.id, at: time) }
        return only
    }

    // MARK: Upkeep

    /// Begins a new epoch in each volume, because this ledger was restored from an older backup.
    ///
    /// - Returns: The number of volumes.
    package func declareRestored() async throws -> Int {
        try await ledger.write { transaction in
            let volumes = try transaction.volumes()
            for volume in volumes { _ = try transaction.renewEpoch(of: volume.id) }
            return volumes.count
        }
    }

    /// Collects unused chunks: the running hub does it if there is one, else this process.
    ///
    /// - Parameter grace: The age in nanoseconds from which unused chunks are collected; nil for
    ///   two days.
    /// - Returns: A sentence that says what was collected.
    package func collect(grace: Int64?) async throws -> String {
        let grace = grace ?? PeriodicMaintenance.grace
        let request = MaintenanceRequest(kind: .collect, argument: grace)
        switch try await request.ask(in: directory, ledger, clock) {
        case .done(let sentence): return sentence
        case .notRunning(let lock):
            let result = try await collect(grace, holding: lock)
            try await ledger.write {
                try MaintenanceRequestTable($0).finish(request.id, with: result)
            }
            return result
        }
    }

    private func collect(_ grace: Int64, holding lock: DataLock) async throws -> String {
        let hub = try await Hub(
            directory: directory, lock: lock, ledger: ledger,
            blobs: try openBlobs(), isAlone: directory.blobSource == nil,
            log: Logger(label: "hub"), clock: clock)
        return "\(try await hub.collect(grace: grace))"
    }
}

extension LedgerTransaction {
    func existingAccount(_ name: String) throws -> Account {
        guard let account = try account(named: name) else {
            throw VolumeError(
                .notFound, "There is no user \(name): concord hub user list shows who there is.")
        }
        return account
    }
}
