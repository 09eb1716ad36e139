import Logging
import Model
import Volume

/// Tells the person at this machine's desktop about documents in conflict. It shows one
/// notification (org.freedesktop.Notifications, through GLib's program gdbus) with their names,
/// updates it, and closes it when all are settled, on whatever device. Without a session bus it
/// does nothing.
final class ConflictNotification: @unchecked Sendable {
    private let volume: Volume
    private let mountPoint: String
    private let log: Logger
    private let poller = BackgroundPoller("notice")

    // Only the poller's thread uses these.

    private var shown: [[Name]] = []
    /// The notification's number on the desktop; 0 before the first one.
    private var number: UInt32 = 0

    /// Seconds to wait for more. After time offline, conflicts come together and should be one
    /// notification.
    private static let groupingSeconds = 1.0

    init(volume: Volume, mountPoint: String, log: Logger) {
        self.volume = volume
        self.mountPoint = mountPoint
        self.log = log
    }

    func start() {
        poller.start { [self] in
            poller.rest(seconds: ConflictNotification.groupingSeconds)
            if !poller.isEnding { tell() }
            return .max / 2
        }
    }

    /// A desktop that does not answer does not delay the unmount for more than 5 seconds.
    func stop() { poller.stop(seconds: 5) }

    /// Call it when documents in conflict may have changed.
    func poke() { poller.poke() }

    private func tell() {
        guard let paths = try? volume.conflicts.paths(), paths != shown else { return }
        let isMore = !Set(paths).subtracting(shown).isEmpty
        shown = paths
        guard !paths.isEmpty else { return close() }
        // A notification that the person has closed is shown again only for new conflicts.
        guard isMore, let bus = SessionBus() else { return }
        // concord-status tells of conflicts itself, with buttons.
        guard !bus.hasStatusIcon else { return }
        let names = paths.prefix(3).compactMap { $0.last?.text }.joined(separator: ", ")
        let more = paths.count > 3 ? " and \(paths.count - 3) more" : ""
        let new = bus.notify(
            paths.count == 1
                ? "A document was edited twice at once"
                : "\(paths.count) documents were edited twice at once",
            "\(names)\(more) in \(mountPoint): all versions are kept. "
                + "“fsctl resolve” settles them.",
            replacing: number)
        if let new { number = new } else { log.debug("no desktop was told of conflicts") }
    }

    private func close() {
        guard number != 0 else { return }
        SessionBus()?.close(number)
        number = 0
    }
}
