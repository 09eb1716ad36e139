import HubProtocol
import Model
import Synchronization

/// Which former versions of a document a hub keeps. All of them, until there are very many.
package struct VersionLimits: Sendable {
    /// A document with more versions than this is thinned.
    package var most = 4096
    /// The newest versions, which always stay.
    package var newest = 1000
    /// No further version is taken of a document with this number, until it was thinned.
    package var refused: Int { 4 * most }

    /// Of the older versions, the newest one stays of each hour for a week, of each day for a year,
    /// and of each week.
    private static let slots: [(age: Int64, length: Int64)] = [
        (Timestamp.span(seconds: 7 * 86_400), Timestamp.span(seconds: 3600)),
        (Timestamp.span(seconds: 365 * 86_400), Timestamp.span(seconds: 86_400)),
        (.max, Timestamp.span(seconds: 7 * 86_400)),
    ]

    package init() {}

    /// The versions to remove. The times are the hub's, so no device can choose what is removed.
    ///
    /// - Parameter all: The newest first.
    func excess(of all: [VersionTable.Arrival], at time: Int64) -> [Identifier] {
        guard all.count > most else { return [] }
        var taken: Set<[Int64]> = []
        return all.dropFirst(newest).filter { version in
            let slot = VersionLimits.slots.first { time - version.time < $0.age }
            guard let length = slot?.length else { return false }
            return !taken.insert([length, version.time / length]).inserted
        }.map(\.id)
    }
}

/// The documents that have so many versions that they must be thinned.
final class CrowdedDocuments: Sendable {
    struct Document: Hashable, Sendable {
        let volume: Identifier
        let item: Identifier
    }

    private let documents = Mutex<Set<Document>>([])

    var all: Set<Document> { documents.withLock { $0 } }

    func add(_ items: Set<Identifier>, in volume: Identifier) {
        guard !items.isEmpty else { return }
        documents.withLock { documents in
            for item in items { documents.insert(Document(volume: volume, item: item)) }
        }
    }

    func remove(_ document: Document) { documents.withLock { _ = $0.remove(document) } }
}

/// Removes the versions that exceed `VersionLimits`, and ends loose uses of chunks, in small
/// transactions.
struct VersionThinning {
    let hub: Hub

    func run() async throws {
        for document in hub.crowded.all where !Task.isCancelled {
            hub.crowded.remove(document)
            try await thin(document)
        }
        let time = hub.clock()
        let volumes = try await hub.ledger.read {
            try VersionTable.volumesWithUses(dueAt: time, $0)
        }
        for volume in volumes {
            var isMore = true
            while isMore, !Task.isCancelled {
                isMore = try await write(to: volume) { try $0.endUses(at: time) } ?? false
            }
        }
    }

    private func thin(_ document: CrowdedDocuments.Document) async throws {
        let (limits, time) = (hub.limits.versions, hub.clock())
        var excess = try await hub.ledger.read { transaction in
            let all = try transaction.versions(in: document.volume).arrivals(of: document.item)
            return limits.excess(of: all, at: time)[...]
        }
        guard !excess.isEmpty else { return }
        hub.log.info(
            "a document has very many versions: \(excess.count) of them are removed",
            metadata: ["volume": "\(document.volume)", "item": "\(document.item)"])
        while !excess.isEmpty, !Task.isCancelled {
            let slice = excess
            let done = try await write(to: document.volume) {
                try VersionThinning.remove(slice, of: document.item, $0, hub.limits.steps)
            }
            excess = excess.dropFirst(done ?? excess.count)
        }
    }

    /// Removes the first of these versions, as many as one transaction may.
    ///
    /// - Returns: Their number, with those that stay because they are not only history by now.
    static func remove(
        _ excess: ArraySlice<Identifier>, of item: Identifier, _ versions: VersionTable,
        _ steps: StepLimits
    ) throws -> Int {
        let state = try versions.transaction.item(item, in: versions.volume)
        let live = Set((state?.live ?? []).map(\.id))
        var (work, done) = (0, 0)
        for id in excess where work < steps.thinning {
            done += 1
            guard !live.contains(id) else { continue }
            work += 30 + (try versions.remove(id) ?? 0) / LedgerTable.bytesPerUnit
        }
        return done
    }

    /// Runs `body` when it is the turn of the volume's owner. Returns nil if there is no such
    /// volume.
    private func write<Result: Sendable>(
        to id: Identifier, _ body: @escaping @Sendable (VersionTable) throws -> Result
    ) async throws -> Result? {
        guard let volume = try await hub.ledger.read({ try $0.volume(id) }) else { return nil }
        return try await hub.turns.take(volume.account) {
            try await hub.ledger.write(.volume(id)) { try body($0.versions(in: id)) }
        }
    }
}
