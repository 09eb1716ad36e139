import Journal
import Model
import Synchronization
import SystemCalls

/// Documents that wait for the bytes of another document's placeholder.
final class MovedPlaceholders: Sendable {
    private let waiting = Mutex<Set<Int64>>([])

    func insert(_ key: Int64) { waiting.withLock { _ = $0.insert(key) } }
    func remove(_ key: Int64) { waiting.withLock { _ = $0.remove(key) } }
    func contains(_ key: Int64) -> Bool { waiting.withLock { $0.contains(key) } }
    var keys: Set<Int64> { waiting.withLock { $0 } }
}

// Placeholders that became another document's contents or a part of a package without a program
// having waited for their bytes, because the tree was changed while it was not mounted or a
// directory became a package. The bytes are fetched as soon as possible. Until then the document is
// neither recorded nor sent, because the zeros in the file are not its contents.
extension Recorder {
    /// Fetches the placeholder's bytes; `file` may be O_PATH. The document is recorded again when
    /// they have arrived, when a hub is connected, and now and then.
    func fetch(_ file: Int32, of item: Item) {
        let key = item.key
        let snapshot = FileSnapshot(of: file)
        moved.insert(key)
        let found: Hydration.Found
        do throws(Errno) {
            found = try hydration.use(file, inode: snapshot.inode, size: snapshot.size)
        } catch {
            return tell(
                "placeholder in \(key)", "The placeholder in \(item.name) cannot be used: \(error)."
            )
        }
        guard case .absent(let absent) = found else { return }
        let name = item.name
        let number = hydration.want(.finish, of: absent) { [weak self, hydration] error in
            hydration.end(absent)
            guard let self else { return }
            guard let error else { return isReady(key) }
            tell(
                "placeholder in \(key)",
                "\(name) got contents that are still at the hub, while the volume was not "
                    + "mounted or by becoming a package. It is not sent before they are here: "
                    + "\(error.message)")
        }
        if number == nil {
            hydration.end(absent)
            isReady(key)
        }
    }

    func endFetching(of key: Int64) {
        guard moved.contains(key) else { return }
        moved.remove(key)
        untell("placeholder in \(key)")
    }
}

extension Volume {
    /// Tries again, because a hub is connected now.
    func askAgainForMovedPlaceholders() {
        for key in recorder.moved.keys { recorder.isReady(key) }
    }
}
