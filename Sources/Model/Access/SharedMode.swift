/// The permission bits that are synchronized between devices: read, write and execute, and the
/// sticky bit. Set-user-ID and set-group-ID are not: they grant the rights of the file's owner, and
/// that is a different user on another device.
package enum SharedMode {
    package static let mask: UInt16 = 0o1777

    package static func bits(of mode: UInt16) -> UInt16 { mode & mask }
}
