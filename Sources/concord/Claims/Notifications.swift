import Logging
import Volume

/// What the person at this machine's desktop is told about the volume.
struct Notifications {
    let conflicts: ConflictNotification
    let editors: EditorNotification

    init(volume: Volume, mountPoint: String, log: Logger) {
        conflicts = ConflictNotification(volume: volume, mountPoint: mountPoint, log: log)
        editors = EditorNotification(mountPoint: mountPoint, log: log)
    }

    func start() {
        conflicts.start()
        editors.start()
    }

    func stop() {
        conflicts.stop()
        editors.stop()
    }
}
