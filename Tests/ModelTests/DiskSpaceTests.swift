import Testing

@testable import Model

@Suite struct DiskSpaceTests {
    @Test func ordinaryCounts() {
        let space = DiskSpace(blocks: 1_000, free: 250, unit: 4_096)
        #expect(space.total == 4_096_000 && space.free == 1_024_000)
    }

    /// XFS says this of a full disk for moments; Swift ends a program whose numbers do not fit.
    @Test(arguments: [UInt.max, UInt.max - 300, UInt.max / 4_096, 1_001])
    func countsThatCannotBeTrue(free: UInt) {
        #expect(DiskSpace(blocks: 1_000, free: free, unit: 4_096).free == 0)
    }

    @Test func sizesThatDoNotFit() {
        let space = DiskSpace(blocks: .max, free: .max - 1, unit: 4_096)
        #expect(space.total == .max && space.free == .max)
        #expect(DiskSpace(blocks: 0, free: 0, unit: 0).total == 0)
    }
}
