import HubProtocol
import Model

extension Hub {
    package func volumes(for caller: Caller) async throws -> VolumeList {
        let volumes = try await ledger.read { try $0.membership.visible(to: caller.account) }
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
        let known = try await ledger.read { transaction in
            try transaction.volumes(of: caller.account).first { $0.name == name }
        }
        if let known { return VolumeAnswer(own(known), created: false) }
        let answer = try await write(for: caller.account) { transaction -> VolumeAnswer in
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

extension VolumeName {
    init(_ access: VolumeAccess) {
        self.init(
            id: access.id, name: access.name, role: access.role, owner: access.owner)
    }
}

extension VolumeAnswer {
    init(_ access: VolumeAccess, created: Bool) {
        let volume = access.volume
        self.init(
            id: access.id, name: access.name, epoch: volume.epoch,
            chunkKey: Base64(volume.chunkKey), nameKey: Base64(volume.nameKey), head: volume.head,
            created: created, role: access.role, owner: access.owner)
    }
}
