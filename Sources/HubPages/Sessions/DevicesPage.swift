import Hub
import HubProtocol
import Hummingbird
import Model

/// The devices of the account, browsers included, and its passkeys, with the forms that end them.
struct DevicesPage {
    private let session: Session

    init(_ session: Session) { self.session = session }

    private struct View {
        let frame: Frame
        let devices: [Device]
        let hasRevoked: Bool
        let revoked: [Device]
        let token: String
        let message: String?
        let passkeys: [PasskeyRow]
        let hasPasskeys: Bool
        let making: Making
    }

    private struct PasskeyRow {
        let name: String
        let short: String
        let added: ShownTime
        let used: ShownTime?
        let remove: String
    }

    /// What the script needs to ask an authenticator for a new passkey. Bytes are in base64url.
    private struct Making {
        let challenge: String
        let account: String
        let user: String
        /// The passkeys that an authenticator must not make again.
        let known: String
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
        let (list, signedIn, passkeys) = try await session.hub.ledger.read { transaction in
            (
                try transaction.devices.entries(of: caller.account),
                try transaction.signedInDevices(of: caller.account, at: time),
                try transaction.passkeys.all(of: caller.account)
            )
        }
        let sorted = list.sorted { $0.seen > $1.seen }
        let revoked = sorted.filter(\.isRevoked).prefix(DevicesPage.revokedShown)
        let view = View(
            frame: Frame(title: "Devices", session),
            devices: sorted.filter { !$0.isRevoked }.map { device($0, signedIn) },
            hasRevoked: !revoked.isEmpty, revoked: revoked.map { device($0, signedIn) },
            token: session.formToken, message: try message(session.call.query["done"]),
            passkeys: passkeys.map(row), hasPasskeys: !passkeys.isEmpty,
            making: try await making(passkeys))
        return Answer.page("devices", view)
    }

    private static let revokedShown = 50

    private func message(_ done: String?) -> String? {
        switch done {
        case "passkey": "The passkey is added. This browser can sign in with it from now on."
        case "removed": "The passkey is removed. Browsers that signed in with it stay signed in."
        case "revoked": "The device is revoked."
        default: nil
        }
    }

    private func row(_ passkey: Passkey) -> PasskeyRow {
        PasskeyRow(
            name: Shown.name(passkey.name), short: String(passkey.id.description.prefix(8)),
            added: ShownTime(passkey.added), used: passkey.used.map { ShownTime($0) },
            remove: PagePath.removal(ofPasskey: passkey.id))
    }

    private func making(_ passkeys: [Passkey]) async throws -> Making {
        let challenge = try await session.hub.devices.challengeToAddPasskey(session: session.token)
        return Making(
            challenge: challenge.base64url, account: session.caller.account.bytes.base64url,
            user: session.caller.user,
            known: passkeys.map(\.credential.base64url).joined(separator: " "))
    }

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
