import Testing

@testable import Volume

/// Which documents are evicted when there is too little space.
@Suite struct EvictionChoiceTests {
    @Test func nothingIsEvictedBelowTheLimits() {
        #expect(Eviction.excess(held: 10, limit: nil, free: 0, floor: nil) == 0)
        #expect(Eviction.excess(held: 10, limit: 10, free: 5, floor: 5) == 0)
    }

    @Test func theLargerExcessCounts() {
        #expect(Eviction.excess(held: 100, limit: 70, free: 5, floor: 15) == 30)
        #expect(Eviction.excess(held: 100, limit: 95, free: 5, floor: 15) == 10)
    }

    @Test func noMoreThanIsHeld() {
        #expect(Eviction.excess(held: 10, limit: nil, free: 0, floor: 1_000) == 10)
    }

    private func candidates(_ uses: [Int64]) -> [EvictionCandidate] {
        uses.enumerated().map {
            EvictionCandidate(key: Int64($0.offset), bytes: 10, lastUse: $0.element)
        }
    }

    @Test func theLeastRecentlyUsedGoFirst() {
        let chosen = Eviction.choice(
            among: candidates([5, 1, 4, 2, 3]), excess: 25, recent: 100)
        #expect(chosen.map(\.key) == [1, 3, 4])
    }

    @Test func recentlyUsedDocumentsStay() {
        let chosen = Eviction.choice(among: candidates([5, 1, 4]), excess: 100, recent: 3)
        #expect(chosen.map(\.key) == [1])
    }

    @Test func ofEquallyOldDocumentsTheLargestIsEvictedFirst() {
        let chosen = Eviction.choice(
            among: [
                EvictionCandidate(key: 1, bytes: 5, lastUse: 1),
                EvictionCandidate(key: 2, bytes: 50, lastUse: 1),
                EvictionCandidate(key: 3, bytes: 0, lastUse: 1),
            ], excess: 10, recent: 9)
        #expect(chosen.map(\.key) == [2])
    }

    @Test(arguments: [
        ("tumblerd", true), ("tracker-extract", true), ("tracker-miner-f", true),
        ("ffmpegthumbnail", true), ("totem-video-thu", true), ("baloo_file_extr", true),
        ("cat", false), ("clamscan", false), ("", false), ("tumblerd2", false),
    ])
    func idlersAreKnownByTheirFirstLetters(program: String, isOne: Bool) {
        #expect(NoDownloadPrograms.usual.contains(program) == isOne)
    }
}
