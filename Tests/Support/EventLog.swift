import Foundation

/// Removes the log of events from the store of a volume that is not mounted. Nothing syncs the log,
/// so a loss of power may take it.
package func removeEventLog(ofStore store: String) throws {
    for name in try FileManager.default.contentsOfDirectory(atPath: store)
    where name.hasPrefix("events.") {
        try FileManager.default.removeItem(atPath: "\(store)/\(name)")
    }
}
