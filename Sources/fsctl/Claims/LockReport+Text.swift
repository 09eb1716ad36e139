import CLinux
import Control

extension LockReport {
    /// Who may edit a document that only one device may edit.
    package func sentence(now: Int64 = cl_clock_realtime_ns()) -> String {
        switch state {
        case "granted": return "hard: only this device may edit it now"
        case "refused":
            let age = since.map { TimeFormat.age($0, now: now) + " ago " } ?? ""
            return "hard: an open for writing failed \(age)with \(failure)"
        default: return "hard: one device at a time may edit it, and nobody does here"
        }
    }

    private var failure: String {
        switch reason {
        case "arriving": "EBUSY, because a newer version is on its way to this device"
        case "offline": "EROFS, because the hub could not be asked whether another device edits it"
        case "reader": "EROFS, because you are a reader of this volume"
        default:
            "EBUSY, because "
                + (user.map { "\($0) on \(deviceName ?? "another device")" } ?? "another device")
                + " edits it"
        }
    }
}
