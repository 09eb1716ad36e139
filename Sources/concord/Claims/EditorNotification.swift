import Logging
import Model
import Synchronization
import Volume

/// Tells the person at this machine's desktop that somebody on another device edits a document
/// which a program here has opened, or that somebody wants to edit one that is open here. Without
/// a session bus it does nothing.
final class EditorNotification: @unchecked Sendable {
    private let poller = BackgroundPoller("editors")
    private let mountPoint: String
    private let log: Logger
    private let news = Mutex<[(title: String, text: String)]>([])

    /// The notification's number on the desktop; 0 before the first one. Only the poller's thread
    /// uses it.
    private var number: UInt32 = 0

    init(mountPoint: String, log: Logger) { (self.mountPoint, self.log) = (mountPoint, log) }

    func start() {
        poller.start { [self] in
            tell()
            return .max / 2
        }
    }

    /// A desktop that does not answer does not delay the unmount for more than 5 seconds.
    func stop() { poller.stop(seconds: 5) }

    /// A program here has opened a document although others edit it.
    func tell(_ path: [Name], isEditedBy editors: [OpenElsewhere]) {
        let names = editors.map { "\($0.user) on \($0.deviceName)" }.joined(separator: ", ")
        add(
            "Somebody else edits this document",
            "\(path.shown) in \(mountPoint) was opened although \(names) edits it. If both save, "
                + "both versions are kept, in conflict.")
    }

    /// Somebody waits until a document is closed here.
    func tell(_ path: [Name], isWantedBy open: OpenElsewhere) {
        add(
            "Somebody waits for this document",
            "\(open.user) on \(open.deviceName) wants to edit \(path.shown) in \(mountPoint), "
                + "which is open here. Save and close it to let them.")
    }

    private func add(_ title: String, _ text: String) {
        log.notice("\(text)")
        news.withLock { $0 = $0.suffix(9) + [(title, text)] }
        poller.poke()
    }

    private func tell() {
        let new = news.withLock { news in
            defer { news = [] }
            return news
        }
        guard let last = new.last, let bus = SessionBus() else { return }
        // The last one replaces the others, so that a program that opens many files does not fill
        // the screen.
        number = bus.notify(last.title, last.text, replacing: number) ?? number
    }
}
