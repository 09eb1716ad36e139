import HubProtocol
import Model

extension Hub {
    /// - Parameter address: The client's address, which is limited after too many wrong codes.
    package func enrol(
        _ request: EnrolRequest, from address: String, as use: TokenUse = .device
    ) async throws -> EnrolAnswer {
        let time = clock()
        let address = ClientAddress.group(of: address)
        try request.deviceName.checkName(of: "device")
        guard enrolments.begin(by: address, at: time) else {
            throw Failure(.tooMany, "Too many wrong codes: wait a minute.")
        }
        var isWrong = false
        defer { if !isWrong { enrolments.forgive(address, at: time) } }
        do {
            return try await ledger.write { transaction in
                let hash = Secret.hash(code: request.code)
                guard let account = try transaction.redeem(hash, at: time) else {
                    throw Failure(
                        .code, "This code is wrong, used or expired: ask for a new one.")
                }
                if let wanted = request.volume, let owner = wanted.owner {
                    _ = try transaction.membership.shared(wanted.name, owner: owner, with: account)
                }
                return try transaction.enrol(
                    request.device, named: request.deviceName, account: account, for: use, at: time)
            }
        } catch let failure as Failure where failure.code == .code {
            isWrong = true
            throw failure
        }
    }

    /// Makes one of two copies of a device a separate device. The other copy remains the original
    /// device.
    package func split(_ caller: Caller, _ request: SplitRequest) async throws -> EnrolAnswer {
        try request.deviceName.checkName(of: "device")
        guard request.device != caller.device else {
            throw Failure(.malformed, "The new device needs another id than the original device.")
        }
        let time = clock()
        return try await ledger.write { transaction in
            guard try transaction.devices(of: caller.account).count < HubLimits.devices else {
                throw Failure(
                    .quota,
                    "The account has \(HubLimits.devices) devices: sign in with a code instead.")
            }
            guard try transaction.owner(of: request.device) == nil else {
                throw Failure(.taken, "The device id \(request.device) exists: choose another one.")
            }
            return try transaction.enrol(
                request.device, named: request.deviceName, account: caller.account,
                from: caller.device, at: time)
        }
    }

    /// - Throws: `.unauthenticated`.
    package func caller(token: String, as use: TokenUse = .device) async throws -> Caller {
        let (time, hash) = (clock(), Secret.hash(token: token))
        guard token.hasPrefix(use.prefix),
            let caller = try await ledger.read({ try $0.caller(hash, at: time) })
        else {
            throw Failure(
                .unauthenticated,
                "The token is unknown, revoked or expired: sign in again. Waiting changes are "
                    + "kept.")
        }
        if time - caller.seen > 60_000_000_000 {
            // A full disk prevents this note, but it is no reason to refuse the request.
            try? await ledger.write(.nothing) {
                try $0.see(caller.device, at: time)
                try $0.limitTokens(of: caller.device, to: time + Secret.tokenTime)
            }
        }
        return caller
    }

    /// Replaces the token of this request by a new one.
    package func renew(_ token: String, of caller: Caller) async throws -> TokenAnswer {
        let (old, new, time) = (Secret.hash(token: token), Secret.token(), clock())
        try await ledger.write { transaction in
            // Another request may have replaced the token in the meantime.
            guard try transaction.caller(old, at: time) != nil else {
                throw Failure(.unauthenticated, "The token has been replaced: sign in again.")
            }
            let expires = Secret.expiry(at: time, renewing: try transaction.expiry(of: old))
            try transaction.renew(
                old, as: Secret.hash(token: new), of: caller.device, expires: expires,
                oldExpires: time + Secret.renewedTime)
        }
        return TokenAnswer(token: new)
    }

    package func devices(for caller: Caller) async throws -> DeviceList {
        var devices = try await ledger.read { try $0.devices(of: caller.account) }
        for index in devices.indices where devices[index].id == caller.device {
            devices[index].isSelf = true
        }
        return DeviceList(devices: devices)
    }

    package func revoke(_ device: Identifier, for caller: Caller) async throws {
        let time = clock()
        let revoked = try await ledger.write { transaction in
            guard try transaction.owner(of: device) == caller.account else {
                throw Failure(.notFound, "There is no device \(device) in this account.")
            }
            return try transaction.revoke(device, at: time)
        }
        for device in revoked { endFeeds(of: device) }
    }

    package func signOut(_ caller: Caller) async throws {
        try await ledger.write { try $0.removeTokens(of: caller.device) }
        endFeeds(of: caller.device)
    }

    package func newEpoch(for caller: Caller) async throws -> EpochAnswer {
        EpochAnswer(epoch: try await ledger.write { try $0.newEpoch(of: caller.device) })
    }

    private func endFeeds(of device: Identifier) {
        let failure = Failure(.unauthenticated, "The device was signed out.")
        feeds.end(failure) { $0.caller.device == device }
    }

    package func volumes(for caller: Caller) async throws -> VolumeList {
        let volumes = try await ledger.read { try $0.membership.accessible(to: caller.account) }
        return VolumeList(volumes: volumes.map(VolumeName.init))
    }

    /// Opens a volume of which the account is a member. A volume of the account itself is created
    /// if it does not exist.
    package func openVolume(_ request: VolumeRequest, for caller: Caller) async throws
        -> VolumeAnswer
    {
        if let shared = try await members.open(request, for: caller) { return shared }
        let name = request.name
        try name.checkName(of: "volume")
        let time = clock()
        let own: @Sendable (VolumeRow) -> VolumeAccess = {
            VolumeAccess(volume: $0, role: .owner, owner: nil)
        }
        let answer = try await ledger.write { transaction -> VolumeAnswer in
            let volumes = try transaction.volumes(of: caller.account)
            if let known = volumes.first(where: { $0.name == name }) {
                return VolumeAnswer(own(known), created: false)
            }
            guard volumes.count < HubLimits.volumes else {
                throw Failure(.quota, "The account has \(HubLimits.volumes) volumes.")
            }
            let volume = VolumeRow(
                id: .random(), account: caller.account, name: name, epoch: .random(),
                chunkKey: Secret.bytes(32), nameKey: Secret.bytes(32), head: 0, collection: 0)
            try transaction.addVolume(volume, at: time)
            return VolumeAnswer(own(volume), created: true)
        }
        headsChanged.store(true, ordering: .relaxed)
        return answer
    }
}

extension LedgerTransaction {
    fileprivate func enrol(
        _ device: Identifier, named name: String, account id: Identifier,
        from parent: Identifier? = nil, for use: TokenUse = .device, at time: Int64
    ) throws -> EnrolAnswer {
        guard let account = try account(id) else {
            throw Failure(.code, "The account of this code was removed.")
        }
        guard try owner(of: device) ?? id == id else {
            throw Failure(
                .taken, "The device \(device) belongs to another account: choose another id.")
        }
        let epoch = try enrol(device, account: id, name: name, from: parent, at: time)
        let token = Secret.token(for: use)
        try removeTokens(of: device)
        try addToken(Secret.hash(token: token), device: device, expires: time + use.lifetime)
        let volumes = try membership.accessible(to: id).map(VolumeName.init)
        return EnrolAnswer(
            token: token, user: account.name, account: id, device: device, epoch: epoch,
            volumes: volumes)
    }
}

extension VolumeName {
    init(_ access: VolumeAccess) {
        self.init(
            id: access.volume.id, name: access.volume.name, role: access.role,
            owner: access.owner)
    }
}

extension VolumeAnswer {
    init(_ access: VolumeAccess, created: Bool) {
        let volume = access.volume
        self.init(
            id: volume.id, name: volume.name, epoch: volume.epoch,
            chunkKey: Base64(volume.chunkKey), nameKey: Base64(volume.nameKey), head: volume.head,
            created: created, role: access.role, owner: access.owner)
    }
}

extension String {
    /// Checks the name of a device or a volume.
    ///
    /// - Throws: `.malformed`.
    fileprivate func checkName(of what: String) throws(Failure) {
        let isGood =
            !isEmpty && utf8.count <= HubLimits.nameBytes
            && !unicodeScalars.contains { $0.value < 32 || $0.value == 127 }
        guard isGood else {
            throw Failure(
                .malformed,
                "The name of a \(what) has 1 to \(HubLimits.nameBytes) bytes and no control "
                    + "characters.")
        }
    }
}
