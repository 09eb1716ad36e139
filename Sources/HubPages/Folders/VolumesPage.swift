import Hub
import HubProtocol
import Hummingbird
import Model

/// The list of the account's volumes.
struct VolumesPage {
    private let session: Session

    init(_ session: Session) { self.session = session }

    private struct View {
        let frame: Frame
        let volumes: [Volume]
        let isEmpty: Bool
        let used: String
        let quota: String?
        let part: Int?
    }

    private struct Volume {
        let address: String
        let name: String
        /// Who owns it and what the account may do; nil for the account's own volumes.
        let note: String?
    }

    func answer() async throws -> Response {
        let (caller, hub) = (session.caller, session.hub)
        let (volumes, account) = try await hub.ledger.read { transaction in
            (
                try transaction.membership.accessible(to: caller.account),
                try transaction.account(caller.account)
            )
        }
        let (used, quota) = (account?.used ?? 0, account?.quota)
        let view = View(
            frame: Frame(title: "Volumes", session),
            volumes: volumes.map { access in
                Volume(
                    address: PagePath.address(access.volume.id),
                    name: Shown.name(access.volume.name),
                    note: access.owner.map {
                        "of \(Shown.name($0))" + (access.role == .reader ? ", to read" : "")
                    })
            },
            isEmpty: volumes.isEmpty, used: Shown.size(used), quota: quota.map { Shown.size($0) },
            part: quota.map { $0 == 0 ? 100 : Int(min(100, Double(used) / Double($0) * 100)) })
        return Answer.page("volumes", view)
    }
}
