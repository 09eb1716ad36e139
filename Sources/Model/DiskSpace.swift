/// The size and free space of a file system, in bytes, from its counts of blocks (statvfs(3)).
///
/// A count of free blocks is negative for moments when XFS has reserved more than is free, and it
/// is unsigned, so it may be nearly 2^64. Counts that cannot be true mean that nothing is free, and
/// sums that do not fit are the largest number.
package struct DiskSpace: Hashable, Sendable {
    package var total: Int64
    /// Free space for ordinary users, without what the file system keeps for root.
    package var free: Int64

    /// - Parameters:
    ///   - blocks: All blocks.
    ///   - free: The free ones of them.
    ///   - unit: The bytes of a block.
    package init(blocks: UInt, free: UInt, unit: UInt) {
        total = DiskSpace.bytes(blocks, unit)
        self.free = DiskSpace.bytes(DiskSpace.checked(free, of: blocks), unit)
    }

    /// The count of free blocks; 0 if there cannot be so many.
    package static func checked(_ free: UInt, of blocks: UInt) -> UInt {
        free > blocks ? 0 : free
    }

    private static func bytes(_ blocks: UInt, _ unit: UInt) -> Int64 {
        let (bytes, isTooLarge) = blocks.multipliedReportingOverflow(by: unit)
        return isTooLarge ? .max : Int64(clamping: bytes)
    }
}
