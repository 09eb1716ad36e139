/// A random number for each byte value: the first 256 outputs of SplitMix64 with a fixed seed. The
/// table is frozen. With other numbers equal content would be cut into other chunks. With this seed
/// a run of zeros is never cut before the longest length, so that the chunks of a hole are known
/// without reading it.
// Unchecked, because the table is written only here and never freed.
struct GearTable: @unchecked Sendable {
    let pointer: UnsafePointer<UInt64>

    init(seed: UInt64) {
        let table = UnsafeMutablePointer<UInt64>.allocate(capacity: 256)
        var state = seed
        for index in 0..<256 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
            table[index] = word ^ word >> 31
        }
        pointer = UnsafePointer(table)
    }
}

/// The seed is "Concord1" in ASCII.
let gearTable = GearTable(seed: 0x436F_6E63_6F72_6431)
