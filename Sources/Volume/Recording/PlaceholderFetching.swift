import Journal
import Model
import Synchronization
import SystemCalls

/// Placeholders that became another document's contents or a part of a package without a program
/// having waited for their bytes, because the tree was changed while it was not mounted or a
/// directory became a package. The bytes are fetched as soon as possible. Until then the document
/// is neither recorded nor sent, because the zeros in the file are not its contents.
final class PlaceholderFetching: Sendable {
    private let hydration: Hydration
    private let reports: RecorderReports
    /// Called with the key of a document that can be recorded now.
    private let isReady: CallbackSlot<@Sendable (Int64) -> Void>
    /// Documents that wait for the bytes of another document's placeholder.
    private let waiting = Mutex<Set<Int64>>([])

    init(
        hydration: Hydration, reports: RecorderReports,
        isReady: CallbackSlot<@Sendable (Int64) -> Void>
    ) {
        self.hydration = hydration
        self.reports = reports
        self.isReady = isReady
    }

    func contains(_ key: Int64) -> Bool { waiting.withLock { $0.contains(key) } }

    /// Tries again, because a hub is connected now.
    func askAgain() {
        for key in waiting.withLock({ $0 }) { isReady.current?(key) }
    }

    /// Fetches the placeholder's bytes; `file` may be O_PATH. The document is recorded again when
    /// they have arrived, when a hub is connected, and now and then.
    func fetch(_ file: Int32, of item: Item) {
        let key = item.key
        let snapshot = FileSnapshot(of: file)
        waiting.withLock { _ = $0.insert(key) }
        let found: Hydration.Found
        do throws(Errno) {
            found = try hydration.use(file, snapshot)
        } catch {
            return reports.tell(
                "placeholder in \(key)", "The placeholder in \(item.name) cannot be used: \(error)."
            )
        }
        guard case .absent(let absent) = found else { return }
        let name = item.name
        let number = hydration.want(.finish, of: absent) { [hydration, reports, isReady] error in
            hydration.endUse(absent)
            guard let error else { return isReady.current?(key) ?? () }
            reports.tell(
                "placeholder in \(key)",
                "\(name) got contents that are still at the hub, while the volume was not "
                    + "mounted or by becoming a package. It is not sent before they are here: "
                    + "\(error.message)")
        }
        if number == nil {
            hydration.endUse(absent)
            isReady.current?(key)
        }
    }

    func endFetching(of key: Int64) {
        guard waiting.withLock({ $0.remove(key) }) != nil else { return }
        reports.untell("placeholder in \(key)")
    }
}
