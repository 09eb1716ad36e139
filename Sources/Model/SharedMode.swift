/// The permission bits that devices share: read, write and execute, and the sticky bit.
/// Set-user-ID and set-group-ID are rights on the device where somebody set them: the same file
/// belongs to somebody else on the next device.
package enum SharedMode {
    package static let mask: UInt16 = 0o1777

    package static func bits(of mode: UInt16) -> UInt16 { mode & mask }
}
