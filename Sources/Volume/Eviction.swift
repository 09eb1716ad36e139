/// A document whose bytes may be given up: the hub has them.
package struct EvictionCandidate: Hashable, Sendable {
    /// The item's key.
    package var key: Int64
    package var bytes: Int64
    /// When it was last read or written, nanoseconds since 1970.
    package var lastUse: Int64

    package init(key: Int64, bytes: Int64, lastUse: Int64) {
        self.key = key
        self.bytes = bytes
        self.lastUse = lastUse
    }
}

/// How many bytes are to be given up, and of which documents.
package enum Eviction {
    /// - Parameters:
    ///   - held: bytes of documents here that the hub has, too.
    ///   - limit: how many of them may be here; nil any number.
    ///   - free: bytes that are free on the disk.
    ///   - floor: how many are to be; nil any number.
    package static func excess(held: Int64, limit: Int64?, free: Int64, floor: Int64?) -> Int64 {
        let overLimit = limit.map { held - $0 } ?? 0
        let underFloor = floor.map { $0 - free } ?? 0
        // Giving up more than there is helps nobody.
        return max(0, min(held, max(overLimit, underFloor)))
    }

    /// The least recently used first, as many as it takes. One used after `recent` stays in any
    /// case: it would come back at once.
    package static func choice(
        among candidates: [EvictionCandidate], excess: Int64, recent: Int64
    ) -> [EvictionCandidate] {
        guard excess > 0 else { return [] }
        let old = candidates.filter { $0.bytes > 0 && $0.lastUse <= recent }
            .sorted { ($0.lastUse, -$0.bytes, $0.key) < ($1.lastUse, -$1.bytes, $1.key) }
        var chosen: [EvictionCandidate] = []
        var freed: Int64 = 0
        for candidate in old {
            if freed >= excess { break }
            chosen.append(candidate)
            freed += candidate.bytes
        }
        return chosen
    }
}
