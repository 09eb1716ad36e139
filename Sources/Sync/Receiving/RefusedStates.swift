import CLinux
import Foundation
import HubProtocol
import Journal
import Logging
import Model
import Reconcile

/// The items whose last state from the hub was invalid. The journal keeps them, so that a hub
/// cannot withhold an item silently: the status names them also after a new start, and the hub is
/// asked again. Only the engine's thread uses it.
final class RefusedStates {
    /// The page of the hub's journal that had the state: it begins after one position and ends at
    /// another.
    struct Place: Codable, Hashable, Sendable {
        var after: UInt64
        var next: UInt64
    }

    struct Entry: Codable, Hashable, Sendable {
        var place: Place
        /// The item's path, or else its id, in the status.
        var subject: String
        var objection: String

        fileprivate var problem: String {
            "The hub's state of this item is invalid and was left out. \(objection) Rename or "
                + "save the item on the device that has it."
        }
    }

    private var entries: [Identifier: Entry] = [:]
    /// Whether the entries differ from those in the journal.
    private var isChanged = false
    /// When the hub is asked again (monotonic nanoseconds).
    private var next: Int64 = 0
    private let pause: Int64
    private let state: Shared<SyncEngine.State>
    private let log: Logger

    /// The largest number of items that the status names.
    private static let most = 1000

    /// - Parameter seconds: After how many seconds the hub is asked again.
    init(_ state: Shared<SyncEngine.State>, log: Logger, seconds: Double) {
        self.state = state
        self.log = log
        pause = Timestamp.span(seconds: seconds)
    }

    /// Whether the hub's state of an item is invalid. The state is left out then, and the item
    /// stays as it is on this device; the status says so until a valid state arrives.
    ///
    /// - Parameter objection: The objection to a state that is valid by itself.
    func refuses(
        _ new: ItemState, in place: Place, _ objection: String?, _ journal: Journal
    ) throws(VolumeError) -> Bool {
        let known = entries[new.id]
        guard let objection = new.objection ?? objection else {
            forget(new.id)
            return false
        }
        guard known != nil || entries.count < RefusedStates.most else { return true }
        if known?.objection != objection {
            log.error("the hub's state of item \(new.id) is invalid: \(objection)")
        }
        let path = try journal.read { reader in
            try reader.key(of: new.id).flatMap { try reader.path(of: $0)?.shown }
        }
        if entries.isEmpty { next = cl_clock_monotonic_ns() + pause }
        let entry = Entry(
            place: place, subject: known?.subject ?? path ?? "\(new.id)", objection: objection)
        isChanged = isChanged || known != entry
        entries[new.id] = entry
        state.withLock { $0.problems[entry.subject] = entry.problem }
        return true
    }

    func forget(_ id: Identifier) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        isChanged = true
        state.withLock { $0.problems[entry.subject] = nil }
    }

    /// Everything is compared with the hub again.
    func forgetAll() {
        for id in Array(entries.keys) { forget(id) }
    }

    // MARK: Asking again

    /// The pages to ask the hub for now; none if it is too early.
    func duePlaces() -> Set<Place> {
        guard !entries.isEmpty, cl_clock_monotonic_ns() >= next else { return [] }
        next = cl_clock_monotonic_ns() + pause
        return Set(entries.values.map(\.place))
    }

    /// Returns the states of a page that were invalid once and are valid now.
    func accepted(_ page: ChangesAnswer, in place: Place, _ journal: Journal) throws(VolumeError)
        -> [ItemState]
    {
        var wanted = Set(entries.filter { $0.value.place == place }.map(\.key))
        var accepted: [ItemState] = []
        let objections = try journal.read { try $0.objections(to: page) }
        for case .item(let new) in page.changes where wanted.remove(new.id) != nil {
            if try !refuses(new, in: place, objections[new.id], journal) { accepted.append(new) }
        }
        // What is not in that part of the hub's journal any more has a newer state.
        if page.next >= place.next {
            for id in wanted { forget(id) }
        }
        return accepted
    }

    // MARK: The journal

    static let key = "hub.refused"

    /// The entries to store in the journal; nil if it has the same ones.
    var news: [Identifier: Entry]? { isChanged ? entries : nil }

    /// Must be called when the journal has stored `news`.
    func stored() { isChanged = false }

    static func store(_ entries: [Identifier: Entry], _ t: Transaction) throws(VolumeError) {
        let named = Dictionary(uniqueKeysWithValues: entries.map { ($0.key.description, $0.value) })
        let text = (try? JSONEncoder().encode(named)).map { String(decoding: $0, as: UTF8.self) }
        try t.set(key, to: entries.isEmpty ? nil : text)
    }

    /// Names after a start what an earlier process has refused. The hub is then asked at once.
    func remember(_ journal: Journal) throws(VolumeError) {
        let text = try journal.read { try $0.value(RefusedStates.key) } ?? "{}"
        let read = try? JSONDecoder().decode([String: Entry].self, from: Data(text.utf8))
        for (id, entry) in read ?? [:] {
            guard let id = Identifier(id) else { continue }
            entries[id] = entry
            state.withLock { $0.problems[entry.subject] = entry.problem }
        }
    }
}
