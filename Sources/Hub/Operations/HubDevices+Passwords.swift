import HubProtocol
import Model

extension HubDevices {
    /// Finds the device that has this password for WebDAV. Wrong passwords are counted together
    /// with wrong codes, and after too many of them a client of the address is refused without a
    /// look into the ledger.
    ///
    /// - Parameter address: The client's address.
    /// - Throws: `.unauthenticated`, `.tooMany`.
    package func caller(user: String, password: String, from address: String) async throws -> Caller
    {
        let (time, hash) = (hub.clock(), Secret.hash(password: password))
        let address = ClientAddress.group(of: address)
        let isCounted = !hub.passwords.contain(hash)
        if isCounted, !hub.enrolments.begin(by: address, at: time) {
            throw Failure(.tooMany, "Too many wrong passwords: wait a minute.")
        }
        var isWrong = false
        defer { if isCounted, !isWrong { hub.enrolments.forgive(address, at: time) } }
        let found = try await hub.ledger.read { try $0.devices.caller(hash, at: time) }
        hub.passwords.note(hash, isValid: found != nil)
        guard let caller = found, caller.user == user else {
            isWrong = true
            throw Failure(
                .unauthenticated,
                "The user or the password is wrong, or the password was revoked or has not been "
                    + "used for 90 days: concord hub password makes a new one.")
        }
        await noteUse(of: caller, at: time) {
            try $0.extendTokens(of: caller.device, to: time + TokenUse.webDAV.lifetime)
        }
        return caller
    }
}
