import HubProtocol
import Model

extension Administration {
    /// Adds a device of the account that uses WebDAV, and returns its password, of which only the
    /// hash is stored.
    ///
    /// - Parameter name: The device's name in the lists of devices.
    /// - Throws: `.notFound`, `.invalid`.
    package func addPassword(for user: String, named name: String) async throws -> String {
        do { try name.checkName(of: "device") } catch {
            throw VolumeError(.invalid, error.message)
        }
        let (password, time) = (Secret.password(), clock())
        try await ledger.write { transaction in
            let account = try transaction.existingAccount(user)
            guard try transaction.devices.entries(of: account.id).count < HubLimits.devices else {
                throw VolumeError(
                    .invalid, "\(user) has \(HubLimits.devices) devices: revoke one of them first.")
            }
            let device = Identifier.random()
            _ = try transaction.devices.enrol(device, account: account.id, name: name, at: time)
            try transaction.devices.addToken(
                Secret.hash(password: password), device: device,
                expires: time + TokenUse.webDAV.lifetime)
        }
        return password
    }
}
