import Glibc
import Model

/// The name of an owner file: a file beside a document by which an editor says who has it open.
struct OwnerFileName {
    let format: OwnerFileFormat
    /// The documents that it may belong to. Vim adds no second dot to the name of a hidden one.
    let documents: [Name]

    init?(_ name: Name) {
        guard let format = (name.bytes + [0]).asCString(Self.format(of:)) else { return nil }
        self.format = format
        let bytes = name.bytes
        switch format {
        case .libreOffice: documents = [Name(bytes: bytes.dropFirst(7).dropLast())]
        case .emacs: documents = [Name(bytes: bytes.dropFirst(2))]
        case .vim:
            let hidden = bytes.dropLast(4)
            documents = [Name(bytes: hidden.dropFirst()), Name(bytes: hidden)]
        }
    }

    /// The format of the owner file with this name; nil for any other name. Each lookup asks it, so
    /// for most names it looks at one character.
    @inline(__always)
    static func format(of name: UnsafePointer<CChar>) -> OwnerFileFormat? {
        name[0] == CChar(bitPattern: UInt8(ascii: ".")) ? hiddenFormat(of: name) : nil
    }

    private static func hiddenFormat(of name: UnsafePointer<CChar>) -> OwnerFileFormat? {
        let length = strlen(name)
        switch UInt8(bitPattern: name[1]) {
        case UInt8(ascii: "~"):
            let isLock = length > 8 && strncmp(name, ".~lock.", 7) == 0
            return isLock && strcmp(name + length - 1, "#") == 0 ? .libreOffice : nil
        case UInt8(ascii: "#"): return length > 2 ? .emacs : nil
        default: return length > 5 && strcmp(name + length - 4, ".swp") == 0 ? .vim : nil
        }
    }
}
