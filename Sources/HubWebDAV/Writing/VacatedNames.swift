import Model
import Reconcile
import Synchronization

/// The documents that programs have just moved away. Many programs save by moving the old document
/// aside, and giving a new one its name: that is one edit of the old document, as on a device.
///
/// This is memory of one process. Without it the new document only has no history.
final class VacatedNames: Sendable {
    struct Place: Hashable, Sendable {
        let volume: Identifier
        let folder: Identifier
        let name: NameKey
    }

    private struct Entry {
        let item: Identifier
        let device: Identifier
        let until: Int64
    }

    private let entries = Mutex<[Place: Entry]>([:])
    private static let most = 10_000
    /// How long a name is remembered, in seconds.
    private static let seconds: Int64 = 60

    func note(_ item: Identifier, by device: Identifier, from place: Place, at time: Int64) {
        let entry = Entry(
            item: item, device: device, until: time + Timestamp.span(seconds: VacatedNames.seconds))
        entries.withLock { entries in
            if entries.count >= VacatedNames.most { entries = entries.filter { $1.until > time } }
            if entries.count >= VacatedNames.most { entries = [:] }
            entries[place] = entry
        }
    }

    /// Returns the document that the same program has moved away from there, once.
    func take(_ place: Place, by device: Identifier, at time: Int64) -> Identifier? {
        entries.withLock { entries in
            guard let entry = entries[place], entry.device == device else { return nil }
            entries[place] = nil
            return entry.until > time ? entry.item : nil
        }
    }
}
