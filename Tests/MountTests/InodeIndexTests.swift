import Testing

@testable import Mount

@Suite struct InodeIndexTests {
    /// Compares the index with a Dictionary, with colliding numbers, few slots and many removals.
    @Test(arguments: [UInt64(1), 2, 3]) func agreesWithADictionary(seed: UInt64) {
        var state = seed
        func random(_ bound: UInt64) -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (state >> 33) % bound
        }
        var index = InodeIndex(capacity: 16)
        var model: [UInt64: UInt64] = [:]
        for step in UInt64(0)..<20_000 {
            let inode = 1 + random(300)
            if random(3) == 0 {
                index.remove(inode)
                model[inode] = nil
            } else {
                index.set(inode, to: step)
                model[inode] = step
            }
            #expect(index.count == model.count, "seed \(seed), step \(step)")
        }
        for inode in UInt64(1)...300 {
            #expect(index[inode] == model[inode], "seed \(seed), inode \(inode)")
        }
    }

    @Test func numbersOfASlabAreNeverReused() {
        final class Thing {}
        var slab = Slab<Thing>()
        var seen: Set<UInt64> = []
        for _ in 0..<100 {
            var number: UInt64 = 0
            _ = slab.insert {
                number = $0
                return Thing()
            }
            #expect(seen.insert(number).inserted)
            #expect(slab[number] != nil)
            _ = slab.remove(number)
            #expect(slab[number] == nil)
        }
        #expect(slab.count == 0)
    }
}
