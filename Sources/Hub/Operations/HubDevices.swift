import HubProtocol
import Model

extension Hub {
    package var devices: HubDevices { HubDevices(hub: self) }
}

/// What the hub does about the devices of accounts and their tokens.
package struct HubDevices: Sendable {
    let hub: Hub

    /// Tokens that the device has already end, unless one of its processes has an open feed. Then
    /// this request may come from a copy of its store: both get valid tokens, and `Processes` finds
    /// out which one is the device. Otherwise each would sign the other one out, again and again.
    ///
    /// - Parameter address: The client's address, which is limited after too many wrong codes.
    package func enrol(
        _ request: EnrolRequest, from address: String, as use: TokenUse = .device
    ) async throws -> EnrolAnswer {
        let time = hub.clock()
        let isInUse = hub.feeds.isListening(request.device)
        try request.deviceName.checkName(of: "device")
        return try await countingWrong("codes", from: address, at: time) {
            try await hub.ledger.write { transaction in
                let hash = Secret.hash(code: request.code)
                guard let account = try transaction.devices.redeem(hash, at: time) else {
                    throw Failure(
                        .code, "This code is wrong, used or expired: ask for a new one.")
                }
                if let wanted = request.volume, let owner = wanted.owner {
                    _ = try transaction.membership.shared(wanted, owner: owner, with: account)
                }
                return try transaction.devices.enrolled(
                    request.device, named: request.deviceName, account: account, for: use,
                    keepingTokens: isInUse, at: time)
            }
        }
    }

    /// Runs `attempt`, which throws `code` if the client does not know what admits it. The wrong
    /// attempts of a client's address are counted together, whatever was wrong.
    ///
    /// - Throws: `.tooMany`.
    func countingWrong<Answer: Sendable>(
        _ what: String, from address: String, at time: Int64, code: Failure.Code = .code,
        _ attempt: () async throws -> Answer
    ) async throws -> Answer {
        let address = ClientAddress.group(of: address)
        guard hub.enrolments.begin(by: address, at: time) else {
            throw Failure(.tooMany, "Too many wrong \(what): wait a minute.")
        }
        var isWrong = false
        defer { if !isWrong { hub.enrolments.forgive(address, at: time) } }
        do { return try await attempt() } catch let failure as Failure where failure.code == code {
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
        let time = hub.clock()
        return try await hub.write(for: caller.account) { transaction in
            guard try transaction.devices.entries(of: caller.account).count < HubLimits.devices
            else {
                throw Failure(
                    .quota,
                    "The account has \(HubLimits.devices) devices: sign in with a code instead.")
            }
            guard try transaction.devices.owner(of: request.device) == nil else {
                throw Failure(.taken, "The device id \(request.device) exists: choose another one.")
            }
            return try transaction.devices.enrolled(
                request.device, named: request.deviceName, account: caller.account,
                from: caller.device, at: time)
        }
    }

    /// - Throws: `.unauthenticated`.
    package func caller(token: String, as use: TokenUse = .device) async throws -> Caller {
        let (time, hash) = (hub.clock(), Secret.hash(token: token))
        guard token.hasPrefix(use.prefix),
            let caller = try await hub.ledger.read({ try $0.devices.caller(hash, at: time) })
        else {
            throw Failure(
                .unauthenticated,
                "The token is unknown, revoked or expired: sign in again. Waiting changes are "
                    + "kept.")
        }
        await noteUse(of: caller, at: time) {
            try $0.limitTokens(of: caller.device, to: time + Secret.tokenTime)
        }
        return caller
    }

    /// Notes, at most once a minute, that a device was used, and changes the end of its tokens.
    func noteUse(
        of caller: Caller, at time: Int64,
        _ changeTokens: @escaping @Sendable (DeviceTable) throws -> Void
    ) async {
        guard time - caller.seen > 60_000_000_000 else { return }
        // A full disk prevents this note, but it is no reason to refuse the request.
        try? await hub.write(.nothing, for: caller.account) {
            try $0.devices.see(caller.device, at: time)
            try changeTokens($0.devices)
        }
    }

    /// Replaces the token of this request by a new one.
    package func renew(_ token: String, of caller: Caller) async throws -> TokenAnswer {
        let (old, new, time) = (Secret.hash(token: token), Secret.token(), hub.clock())
        let expires = try await hub.write(for: caller.account) { transaction in
            // Another request may have replaced the token in the meantime.
            guard try transaction.devices.caller(old, at: time) != nil else {
                throw Failure(.unauthenticated, "The token has been replaced: sign in again.")
            }
            let expires = Secret.expiry(at: time, renewing: try transaction.devices.expiry(of: old))
            try transaction.devices.renew(
                old, as: Secret.hash(token: new), of: caller.device, expires: expires)
            return expires
        }
        return TokenAnswer(token: new, expires: expires)
    }

    package func list(for caller: Caller) async throws -> DeviceList {
        var devices = try await hub.ledger.read { try $0.devices.entries(of: caller.account) }
        for index in devices.indices where devices[index].id == caller.device {
            devices[index].isSelf = true
        }
        return DeviceList(devices: devices)
    }

    package func revoke(_ device: Identifier, for caller: Caller) async throws {
        let time = hub.clock()
        let revoked = try await hub.write(for: caller.account) { transaction in
            guard try transaction.devices.owner(of: device) == caller.account else {
                throw Failure(.notFound, "There is no device \(device) in this account.")
            }
            return try transaction.devices.revoke(device, at: time)
        }
        for device in revoked { endFeeds(of: device) }
    }

    package func signOut(_ caller: Caller) async throws {
        try await hub.write(for: caller.account) { transaction in
            try transaction.devices.removeTokens(of: caller.device)
            try GrantTable.release(of: caller.device, transaction)
        }
        endFeeds(of: caller.device)
    }

    package func newEpoch(for caller: Caller) async throws -> EpochAnswer {
        let epoch = try await hub.write(for: caller.account) {
            try $0.devices.newEpoch(of: caller.device)
        }
        return EpochAnswer(epoch: epoch)
    }

    private func endFeeds(of device: Identifier) {
        let failure = Failure(.unauthenticated, "The device was signed out.")
        hub.feeds.end(failure) { $0.caller.device == device }
        hub.leases.apply(.ended(device: device))
    }
}

extension DeviceTable {
    func enrolled(
        _ device: Identifier, named name: String, account id: Identifier,
        from parent: Identifier? = nil, for use: TokenUse = .device, keepingTokens: Bool = false,
        at time: Int64
    ) throws -> EnrolAnswer {
        guard let account = try transaction.account(id) else {
            throw Failure(.code, "The account of this code was removed.")
        }
        guard try owner(of: device) ?? id == id else {
            throw Failure(
                .taken, "The device \(device) belongs to another account: choose another id.")
        }
        // Otherwise somebody with a code could make a device that no list shows.
        guard try transaction.links[device] == nil else {
            throw Failure(.taken, "The device \(device) is a link: choose another id.")
        }
        let epoch = try enrol(device, account: id, name: name, from: parent, at: time)
        let token = Secret.token(for: use)
        if !keepingTokens { try removeTokens(of: device) }
        try addToken(
            Secret.hash(token: token), device: device, expires: time + use.lifetime)
        let volumes = try transaction.membership.visible(to: id).map(VolumeName.init)
        return EnrolAnswer(
            token: token, user: account.name, account: id, device: device, epoch: epoch,
            volumes: volumes)
    }
}

extension String {
    /// Checks the name of a device or a volume.
    ///
    /// - Throws: `.malformed`.
    func checkName(of what: String) throws(Failure) {
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
