import Control
import HubProtocol
import Model
import Sync
import Volume

/// The verbs about a volume's members.
struct MemberVerbs {
    let volume: Volume
    let membership: Membership

    func answer(_ request: Request) throws(VolumeError) -> Answer {
        switch try request.known() {
        case .members: return .members(report(try membership.members()))
        case .volumes:
            let volumes = try membership.volumes().volumes
            return .volumes(
                VolumesReport(
                    volumes: volumes.map { volume in
                        VolumesReport.Volume(
                            name: volume.name, owner: volume.owner,
                            role: (volume.role ?? .owner).rawValue,
                            here: volume.id == membership.account?.volume)
                    }))
        default:
            guard let user = request.user else { throw request.missing("user") }
            let change = try request.memberChange()
            let role = try request.memberRole()
            var folder: Identifier?
            if request.path != nil { folder = try directory(at: request.components()) }
            return .members(
                report(
                    try membership.change(
                        MemberRequest(change, user, role: role, folder: folder))))
        }
    }

    private func directory(at path: [Name]) throws(VolumeError) -> Identifier {
        guard !path.isEmpty else {
            throw VolumeError(
                .invalid, "this is the whole volume: leave out the folder to share all of it")
        }
        guard let directory = try volume.history.directory(at: path) else {
            throw VolumeError(
                .notFound, "\(path.shown) is not a folder of this volume: only folders are shared")
        }
        return directory
    }

    private func report(_ list: MemberList) -> MembersReport {
        MembersReport(
            members: list.members.map { member in
                MembersReport.Member(
                    user: member.user, role: member.role.rawValue, since: member.since,
                    here: member.isSelf, folder: member.folder)
            })
    }
}

extension Request {
    /// Whether the verb changes documents for everybody, which a reader may not.
    var changesDocuments: Bool {
        switch Verb(rawValue: verb) {
        case .add, .resolve: true
        case .merge, .revert: explain != true
        default: false
        }
    }

    fileprivate func memberChange() throws(VolumeError) -> MemberRequest.Change {
        guard let change else { throw missing("change") }
        guard let known = MemberRequest.Change(rawValue: change) else {
            throw VolumeError(.invalid, "\"\(change)\" is none of add, role and remove")
        }
        return known
    }

    fileprivate func memberRole() throws(VolumeError) -> Role? {
        guard let role else { return nil }
        guard let known = Role(rawValue: role), known != .owner else {
            throw VolumeError(
                .invalid, "\"\(role)\" is not the role of a member: say editor or reader")
        }
        return known
    }
}

extension HubReport {
    /// Whose volume it is and what this account may do there.
    mutating func take(_ account: Account, _ standing: Standing) {
        owner = account.owner
        role = standing.role.rawValue
        members = standing.members
    }
}
