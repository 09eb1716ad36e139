/// Who could read a document when a version of it was saved, as devices tell it to each other. On a
/// device that never showed the version in its tree, the version keeps these rights, although the
/// document may have other rights by then.
package struct SavedAccess: Hashable, Sendable {
    /// Nil for the owner of the volume's root, whose user may have another name on each machine.
    package let owner: OwnerName?
    /// The permission bits that devices share.
    package let mode: UInt16

    /// A name with `[` could not be read back, so it becomes that of an owner whom nobody knows.
    package init(owner: OwnerName?, mode: UInt16) {
        self.owner = owner?.text.contains("[") == true ? OwnerName(uid: .max) : owner
        self.mode = SharedMode.bits(of: mode)
    }

    /// Reads what is between the brackets.
    private init?(_ text: Substring) {
        let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts[0].utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "7")).contains),
            let mode = UInt16(parts[0], radix: 8), mode <= SharedMode.mask
        else { return nil }
        let owner = parts.count > 1 ? OwnerName(parts[1].utf8) : nil
        guard parts.count == 1 || owner != nil else { return nil }
        self.init(owner: owner, mode: mode)
    }

    /// The signature and the access as one text, as the hub keeps it: `sed (agent-7) [600 games]`.
    /// An older build takes all of it for the program's name.
    package static func joined(_ signature: String, _ access: SavedAccess?) -> String {
        // A signature that ends with `]` gets empty brackets, so that the last brackets are always
        // those of the access.
        guard access != nil || signature.hasSuffix("]") else { return signature }
        let parts = access.map { [String($0.mode, radix: 8), $0.owner?.text].compactMap(\.self) }
        return "\(signature) [\(parts?.joined(separator: " ") ?? "")]"
    }

    /// The signature and the access of a text from the hub. Everything is the signature if the text
    /// does not end with an access.
    package static func split(_ text: String) -> (signature: String, access: SavedAccess?) {
        guard let (signature, inside) = text.split(atLast: "[", "]") else { return (text, nil) }
        let access = SavedAccess(inside)
        return access != nil || inside.isEmpty ? (signature, access) : (text, nil)
    }
}
