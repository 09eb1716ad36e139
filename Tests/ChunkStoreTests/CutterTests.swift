import ChunkStore
import Model
import Testing

@Suite struct CutterTests {
    static let seed: UInt64 = 20_261_121

    private func lengths(_ bytes: [UInt8], sizes: CutSizes) -> [Int] {
        let cutter = Cutter(sizes)
        return bytes.withUnsafeBytes { bytes in
            var lengths: [Int] = []
            var offset = 0
            while offset < bytes.count {
                lengths.append(cutter.cut(UnsafeRawBufferPointer(rebasing: bytes[offset...])))
                offset += lengths.last!
            }
            return lengths
        }
    }

    @Test(
        arguments: [
            (0, nil), (256 << 10, nil), (256 << 10 + 1, 64 << 10), (64 << 20, 64 << 10),
            (64 << 20 + 1, 256 << 10), (1 << 30, 256 << 10), (1 << 30 + 1, 1 << 20),
            (UInt64.max, 1 << 20),
        ] as [(UInt64, Int?)])
    func sizesFollowTheFile(size: UInt64, average: Int?) {
        let sizes = CutSizes.sizes(forFileOf: size)
        #expect(sizes?.average == average)
        #expect(sizes?.min == average.map { $0 / 4 })
        #expect(sizes?.max == average.map { $0 * 4 })
    }

    /// Frozen: if this fails, every existing store would no longer recognize its chunks. The
    /// numbers come from an independent implementation of Format.md in Python.
    @Test func goldenCuts() throws {
        var noise = Noise(seed: 1)
        let bytes = noise.bytes(2 << 20)
        let sizes = try #require(CutSizes.sizes(forFileOf: 64 << 20))
        #expect(
            lengths(bytes, sizes: sizes) == [
                71822, 99314, 70501, 79547, 68401, 77750, 28990, 74926, 68531, 71440, 92397, 70363,
                57804, 76511, 116598, 66277, 71435, 66011, 113307, 21480, 50181, 77750, 67220,
                70071, 85063, 29676, 76062, 71857, 88281, 17586,
            ])
        let larger = try #require(CutSizes.sizes(forFileOf: 1 << 30))
        #expect(
            lengths(bytes, sizes: larger) == [
                389585, 451361, 90840, 291379, 290421, 266428, 317138,
            ])
        let largest = try #require(CutSizes.sizes(forFileOf: 2 << 30))
        #expect(
            lengths(bytes + noise.bytes(4 << 20), sizes: largest) == [
                1_463_405, 1_110_864, 1_009_571, 306935, 1_158_783, 1_241_898,
            ])
    }

    /// Compares the four lanes with the plainest implementation of the definition.
    @Test func lanesFindWhatTheDefinitionSays() throws {
        let sizes = try #require(CutSizes.sizes(forFileOf: 1 << 20))
        var noise = Noise(seed: Self.seed)
        let bytes = noise.bytes(1 << 20)
        #expect(
            lengths(bytes, sizes: sizes) == plainLengths(bytes, sizes: sizes), "seed \(Self.seed)")
    }

    private func plainLengths(_ bytes: [UInt8], sizes: CutSizes) -> [Int] {
        let gear = splitMix(seed: 0x436F_6E63_6F72_6431, count: 256)
        let bits = UInt64(sizes.average.trailingZeroBitCount)
        var lengths: [Int] = []
        var start = 0
        while start < bytes.count {
            let end = min(sizes.max, bytes.count - start)
            var length = min(sizes.min, end)
            var hash: UInt64 = 0
            for byte in bytes[(start + length - min(64, length))..<(start + length)] {
                hash = hash << 1 &+ gear[Int(byte)]
            }
            while length < end {
                if hash >> (64 - (length < sizes.average ? bits + 2 : bits - 2)) == 0 { break }
                hash = hash << 1 &+ gear[Int(bytes[start + length])]
                length += 1
            }
            lengths.append(length)
            start += length
        }
        return lengths
    }

    private func splitMix(seed: UInt64, count: Int) -> [UInt64] {
        (1...UInt64(count)).map { index in
            var word = seed &+ index &* 0x9E37_79B9_7F4A_7C15
            word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
            return word ^ word >> 31
        }
    }

    @Test func boundsAreKeptAndTheMeanIsNearTheAverage() throws {
        let sizes = try #require(CutSizes.sizes(forFileOf: 64 << 20))
        var noise = Noise(seed: Self.seed)
        let lengths = lengths(noise.bytes(16 << 20), sizes: sizes)
        #expect(lengths.dropLast().allSatisfy { sizes.min...sizes.max ~= $0 })
        #expect(lengths.reduce(0, +) == 16 << 20)
        let mean = (16 << 20) / lengths.count
        #expect(sizes.average * 9 / 10...sizes.average * 13 / 10 ~= mean, "mean \(mean)")
    }

    @Test(arguments: [1 << 20, 1 << 30, 2 << 30] as [UInt64])
    func zerosAreCutAtTheGreatestLengthOnly(size: UInt64) throws {
        let sizes = try #require(CutSizes.sizes(forFileOf: size))
        let zeros = [UInt8](repeating: 0, count: sizes.max + 1)
        #expect(lengths(zeros, sizes: sizes) == [sizes.max, 1])
        #expect(lengths(Array(zeros.dropLast(2)), sizes: sizes) == [sizes.max - 1])
    }

    @Test func shortWindows() throws {
        let cutter = Cutter(try #require(CutSizes.sizes(forFileOf: 1 << 20)))
        #expect(cutter.cut(UnsafeRawBufferPointer(start: nil, count: 0)) == 0)
        for count in [1, 63, 64, 65, (16 << 10) - 1, 16 << 10] {
            let bytes = [UInt8](repeating: 7, count: count)
            #expect(bytes.withUnsafeBytes { cutter.cut($0) } == count)
        }
    }
}
