import Foundation

/// SplitMix64: the same seed gives the same numbers everywhere, so a failure can be repeated.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    package let seed: UInt64
    private var state: UInt64

    /// The seed is CONCORD_SEED if that is set, else `usual`, else random. It is printed in any
    /// case.
    package init(named name: String, usual: UInt64? = nil) {
        let given = ProcessInfo.processInfo.environment["CONCORD_SEED"].flatMap { UInt64($0) }
        self.init(seed: given ?? usual ?? UInt64.random(in: 0...UInt64(UInt32.max)))
        print("\(name): CONCORD_SEED=\(seed)")
    }

    package init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// Returns true once in `count` times, on average.
    package mutating func oneIn(_ count: Int) -> Bool { below(count) == 0 }

    package mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[below(elements.count)]
    }

    /// A separate generator, for a thread or a file.
    package mutating func fork() -> SeededRandom { SeededRandom(seed: next()) }
}
