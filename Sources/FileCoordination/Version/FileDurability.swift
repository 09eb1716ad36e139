import Control
import Foundation
import Model

/// How safe the contents of an item are.
public enum FileDurability: Hashable, Sendable {
    /// They survive the end of the program that saved them, but perhaps not a loss of power.
    case memory
    /// They survive a loss of power, but not the loss of this disk.
    case disk
    /// They survive the loss of this device. `devices` is the number of devices that have all
    /// contents, including this one; nil if the hub has not said.
    case hub(devices: Int?)
}

extension FileCoordinator {
    /// How safe an item is now. Contents that are just being saved are in
    /// ``FileDurability/memory``. For a directory it is the lowest level of all that it contains.
    ///
    /// It asks the volume's daemon and waits for what the daemon still has to record; the daemon
    /// waits at most 0.3 s for the hub's number of devices. Do not call it on a main thread. For
    /// files on other file systems it returns nil.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when there is no such item or the
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
