import Logging
import Model
import Volume

// Stands in until the mount's own replaces it.
package final class MountSession: Sendable {
    package struct Options: Sendable {
        package var allowOther = false
        package var defaultPermissions = false
        package var passthrough = true
        package var listConflicts = false
        /// Generic ones, as mount(8) knows them: ro, nosuid, nodev, noexec, noatime.
        package var generic: [String] = []
        package init() {}
    }

    package init(
        volume: Volume, mountPoint: String, options: Options, controlSocket: String, log: Logger
    ) throws(VolumeError) { throw VolumeError(.invalid, "this build has no mount in it yet") }
    package func run() {}
    package func stop() {}
    package var facts: (passthrough: Bool, reason: String) { (false, "") }
    package var requestCounts: [String: Int] { [:] }
}
