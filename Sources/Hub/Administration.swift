import HubProtocol
import Logging
import Model

/// What `concord hub` subcommands do to a hub's directory, whether or not a hub runs on it.
package struct Administration: Sendable {
    let directory: DataDirectory
    let ledger: SQLiteLedger
    let clock: @Sendable () -> Int64

    /// - Parameter mayCreate: Where there is no hub yet, one is made.
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
                throw VolumeError(.invalid, "There is a user \(name) already.")
            }
            try transaction.addAccount(.random(), name: name, quota: quota, at: time)
        }
    }

    package func setQuota(of name: String, _ quota: UInt64?) async throws {
        try await ledger.write {
            try $0.setQuota(of: try $0.existingAccount(name).id, quota)
        }
    }

    /// - Parameter withVolumes: Else an account that has any is refused.
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
            try transaction.removeAccount(account.id)
        }
    }

    /// A code that enrols one device within seven days.
    package func invite(_ name: String) async throws -> String {
        let (code, expires) = (Secret.code(), clock() + Timestamp.span(seconds: 7 * 86_400))
        try await ledger.write {
            try $0.addInvite(
                Secret.hash(code: code), account: try $0.existingAccount(name).id,
                expires: expires)
        }
        return code
    }

    // MARK: Devices

    package func devices() async throws -> [(user: String, device: DeviceEntry)] {
        try await ledger.read { transaction in
            try transaction.accounts().flatMap { account in
                try transaction.devices(of: account.id).map { (account.name, $0) }
            }
        }
    }

    /// - Parameter device: Its id, or a beginning or a name that only one has.
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
        _ = try await ledger.write { try $0.revoke(only.id, at: time) }
        return only
    }

    // MARK: Upkeep

    /// All volumes begin new epochs: this ledger is an older one. The number of volumes.
    package func declareRestored() async throws -> Int {
        try await ledger.write { transaction in
            let volumes = try transaction.volumes()
            for volume in volumes { _ = try transaction.renewEpoch(of: volume.id) }
            return volumes.count
        }
    }

    /// By the running hub, or here when none runs.
    ///
    /// - Parameter grace: Nanoseconds; nil for two days.
    /// - Returns: A sentence.
    package func collect(grace: Int64?) async throws -> String {
        let grace = grace ?? Upkeep.grace
        if let lock = try directory.lockIfFree() { return try await collect(grace, holding: lock) }
        return try await askForCollection(grace: grace)
    }

    private func collect(_ grace: Int64, holding lock: DataLock) async throws -> String {
        let hub = try await Hub(
            directory: directory, lock: lock, ledger: ledger,
            blobs: try directory.openBlobs(), log: Logger(label: "hub"), clock: clock)
        return "\(try await hub.collect(grace: grace))"
    }

    private func askForCollection(grace: Int64) async throws -> String {
        let errand = Errand(id: .random(), argument: grace)
        let time = clock()
        try await ledger.write { try $0.addErrand(errand, at: time) }
        while clock() - time < Timestamp.span(seconds: 600) {
            if let result = try await ledger.read({ try $0.result(of: errand.id) }) {
                return result
            }
            // The hub has ended without an answer: what it was asked for is done here.
            if let lock = try directory.lockIfFree() {
                let result = try await collect(grace, holding: lock)
                try await ledger.write { try $0.finish(errand.id, with: result) }
                return result
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw VolumeError(
            .timeout, "The running hub has not collected within ten minutes: look at its log.")
    }
}

extension LedgerTransaction {
    fileprivate func existingAccount(_ name: String) throws -> Account {
        guard let account = try account(named: name) else {
            throw VolumeError(
                .notFound, "There is no user \(name): concord hub user list shows who there is.")
        }
        return account
    }
}
