/// The name of the user account that owns an item, as devices tell it to each other: valid UTF-8
/// of 1 to 255 bytes without control characters, `/` and `:`. An owner without an account is named
/// by `#` and the number; no account has such a name.
package struct OwnerName: Hashable, Sendable {
    package let text: String

    /// The key of the attribute of an item that has this name.
    package static let attribute = "owner"

    private static let bytesMax = 255

    /// Returns nil if the bytes are not a valid name.
    package init?(_ bytes: some Collection<UInt8>) {
        guard (1...OwnerName.bytesMax).contains(bytes.count),
            !bytes.contains(where: {
                $0 < 0x20 || [0x7F, UInt8(ascii: "/"), UInt8(ascii: ":")].contains($0)
            }),
            let text = String(validating: bytes, as: UTF8.self)
        else { return nil }
        self.text = text
    }

    /// The name of an owner without an account.
    package init(uid: UInt32) { text = "#\(uid)" }

    package var bytes: [UInt8] { Array(text.utf8) }

    package var isNumber: Bool { text.hasPrefix("#") }
}
