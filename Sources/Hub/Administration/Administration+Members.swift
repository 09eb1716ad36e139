import HubProtocol
import Model

extension Administration {
    /// - Parameter owner: The name of the account that owns the volume.
    /// - Throws: `.notFound`.
    package func members(of volume: String, owner: String) async throws -> [Member] {
        try await ledger.read { transaction in
            let table = transaction.membership
            return try table.members(of: try table.existing(volume, owner: owner).id)
        }
    }

    /// All volumes, with the names of their owners and the numbers of their members.
    package func volumes() async throws -> [(owner: String, name: String, members: Int)] {
        try await ledger.read { transaction in
            try transaction.accounts().flatMap { account in
                try transaction.volumes(of: account.id).map { volume in
                    (
                        account.name, volume.name,
                        try transaction.membership.memberCount(of: volume.id)
                    )
                }
            }
        }
    }

    /// Adds or removes a member or changes the role. A running hub ends the feeds of the account's
    /// devices within a second, and refuses their requests at once.
    ///
    /// - Throws: `.notFound`, `.invalid`.
    ///
    /// - Parameter folder: The path of the directory that a new member sees as the volume; nil if
    ///   it is the whole volume.
    package func change(
        _ request: MemberRequest, in volume: String, owner: String, folder: String? = nil
    ) async throws {
        if let objection = request.objection { throw VolumeError(.invalid, objection) }
        let time = clock()
        do {
            try await ledger.write { transaction in
                let table = transaction.membership
                let volume = try table.existing(volume, owner: owner)
                var request = request
                if let folder {
                    request.folder = try transaction.folders.directory(at: folder, in: volume)
                    guard request.folder != nil else {
                        throw VolumeError(
                            .notFound, "There is no folder \"\(folder)\" in this volume.")
                    }
                }
                try table.change(request, of: volume, at: time)
            }
        } catch let failure as Failure {
            throw VolumeError(
                failure.code == .notFound ? .notFound : .invalid, failure.message)
        }
    }
}

extension MemberTable {
    fileprivate func existing(_ name: String, owner: String) throws -> VolumeRow {
        guard let account = try transaction.account(named: owner) else {
            throw VolumeError(
                .notFound, "There is no user \(owner): concord hub user list shows who there is.")
        }
        guard let volume = try transaction.volumes(of: account.id).first(where: { $0.name == name })
        else {
            throw VolumeError(
                .notFound,
                "\(owner) has no volume \"\(name)\": concord hub member list shows all volumes.")
        }
        return volume
    }
}
