import Control
import Foundation
import Model

/// How safe an item's contents are.
public enum FileDurability: Hashable, Sendable {
    /// They outlive the program that saved them, not a loss of power.
    case memory
    /// They outlive a loss of power, not this disk.
    case disk
    /// They outlive this device. `devices` says how many devices have them all, this one too if it
    /// has; nil where the hub has not told.
    case hub(devices: Int?)
}

extension FileCoordinator {
    /// How safe an item is, as it is now: what is being saved is in ``FileDurability/memory``. Of a
    /// directory, what holds for all that it contains.
    ///
    /// Asks the volume's daemon, and waits for what it has to record; where the hub is asked how
    /// many devices have it, 0.3 s at most. Do not call it on a main thread. On files of other file
    /// systems nobody knows: nil.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when there is no such item, or the
    ///   volume's daemon does not answer; `.denied`.
    public static func durability(ofItemAt url: URL) throws(FileCoordinationError)
        -> FileDurability?
    {
        guard let place = try FilePath(url).place() else { return nil }
        do throws(VolumeError) {
            let report = try ControlClient(socket: place.socket).ask(
                Request(.status, path: place.components), as: DocumentReport.self)
            switch report.durability {
            case "hub": return .hub(devices: report.devices)
            case "disk": return .disk
            default: return .memory
            }
        } catch {
            throw FileCoordinationError(error)
        }
    }
}
