import Hub
import HubProtocol
import Hummingbird
import Model

/// The devices of the account, browsers included, and the form that revokes one.
struct DevicesPage {
    private let session: Session

    init(_ session: Session) { self.session = session }

    private struct View {
        let frame: Frame
        let devices: [Device]
        let hasRevoked: Bool
        let revoked: [Device]
        let token: String
        let done: Bool
    }

    private struct Device {
        let name: String
        let short: String
        let enrolled: ShownTime
        let seen: ShownTime
        let isSelf: Bool
        /// Its session or its token has ended.
        let isOut: Bool
        let revoke: String
    }

    func answer() async throws -> Response {
        let (caller, time) = (session.caller, session.hub.clock())
        let (list, signedIn) = try await session.hub.ledger.read { transaction in
            (
                try transaction.devices.entries(of: caller.account),
                try transaction.signedInDevices(of: caller.account, at: time)
            )
        }
        let sorted = list.sorted { $0.seen > $1.seen }
        let revoked = sorted.filter(\.isRevoked).prefix(DevicesPage.revokedShown)
        let view = View(
            frame: Frame(title: "Devices", session),
            devices: sorted.filter { !$0.isRevoked }.map { device($0, signedIn) },
            hasRevoked: !revoked.isEmpty, revoked: revoked.map { device($0, signedIn) },
            token: session.formToken, done: try session.call.query["done"] != nil)
        return Answer.page("devices", view)
    }

    private static let revokedShown = 50

    private func device(_ device: DeviceEntry, _ signedIn: Set<Identifier>) -> Device {
        Device(
            name: Shown.name(device.name), short: String(device.id.description.prefix(8)),
            enrolled: ShownTime(device.enrolled), seen: ShownTime(device.seen),
            isSelf: device.id == session.caller.device, isOut: !signedIn.contains(device.id),
            revoke: PagePath.revocation(of: device.id))
    }

    /// Revokes a device. One that was revoked keeps what it has, and can sign in with a new code.
    func revoke(_ device: Identifier) async throws -> Response {
        _ = try await session.form()
        try await session.hub.devices.revoke(device, for: session.caller)
        guard device != session.caller.device else {
            return Answer.redirect(to: PagePath.signInAddress)
        }
        return Answer.redirect(to: PagePath.devicesAddress + "?done=revoked")
    }
}

extension LedgerTransaction {
    /// The devices that have a valid token.
    fileprivate func signedInDevices(of account: Identifier, at time: Int64) throws
        -> Set<Identifier>
    {
        let found = try rows(
            """
            SELECT tokens.device FROM devices JOIN tokens ON tokens.device = devices.id
            WHERE devices.account = $1 AND (tokens.expires IS NULL OR tokens.expires > $2)
            """, [.id(account), .integer(time)])
        return Set(try found.map { try $0.id(0) })
    }
}
