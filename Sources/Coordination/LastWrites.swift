/// The places for which write claims were granted, with the order of the grants.
struct LastWrites {
    private var numbers: [Path: UInt64] = [:]
    /// The highest number among the forgotten places.
    private var before: UInt64 = 0

    private static let countMax = 1000

    mutating func note(_ claim: Claim, _ number: UInt64) {
        if numbers.count >= LastWrites.countMax {
            before = numbers.values.max() ?? before
            numbers = [:]
        }
        for target in claim.targets where target.access.isWriting {
            numbers[target.path] = number
        }
    }

    /// The highest number at the place, below or above it.
    func last(at place: Path) -> UInt64 {
        numbers.lazy.filter { $0.key.isInLine(with: place) }.map(\.value).max() ?? before
    }
}
