/// The result of `who`: who has documents open, on which device.
package struct WhoReport: Codable, Hashable, Sendable {
    package struct Lease: Codable, Hashable, Sendable {
        package var path: RawText
        /// The account of the device at the hub.
        package var user: String
        package var device: String
        package var deviceName: String
        /// `edits`: a program has the document open for writing, or holds a write claim on it.
        /// `shows`: a program presents it.
        package var use: String
        /// Nanoseconds since 1970.
        package var since: Int64
        /// Whether it is this device.
        package var here: Bool

        package init(
            path: RawText, user: String, device: String, deviceName: String, use: String,
            since: Int64, here: Bool
        ) {
            (self.path, self.user, self.device) = (path, user, device)
            (self.deviceName, self.use, self.since, self.here) = (deviceName, use, since, here)
        }
    }

    package var leases: [Lease]
    package init(leases: [Lease]) { self.leases = leases }
}
