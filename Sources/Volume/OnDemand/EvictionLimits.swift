/// A document whose bytes may be removed from this device because the hub has them.
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

// How many bytes are evicted, and of which documents.
extension Eviction {
    /// - Parameters:
    ///   - held: Bytes of documents on this device that the hub has too.
    ///   - limit: How many of them may stay; nil means any number.
    ///   - free: Free bytes on the disk.
    ///   - floor: How many should be free; nil means any number.
    package static func excess(held: Int64, limit: Int64?, free: Int64, floor: Int64?) -> Int64 {
        let overLimit = limit.map { held - $0 } ?? 0
        let underFloor = floor.map { $0 - free } ?? 0
        // No more can be evicted than is held.
        return max(0, min(held, max(overLimit, underFloor)))
    }

    /// Chooses the least recently used documents until `excess` bytes are found. A document used
    /// after `recent` is never chosen, because a program would probably need it again at once.
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
