/// The way in which two contents are merged.
package enum MergeDriver: Hashable, Sendable {
    /// By lines, like `git merge`.
    case text
    /// By lines. Where both sides changed the same lines, both are kept: those of ours first.
    case union
    /// By lines. Where both sides only inserted lines, both insertions are kept: those of ours
    /// first.
    case list
    /// By lines if that gives valid JSON, else by key.
    case json
    /// A database, row by row.
    case sqlite
    /// Never merged.
    case binary
    /// By a program that a configuration file of this machine defines under that name.
    case program(String)

    /// Parses the word after `merge=`. Returns nil when it is not a valid name.
    init?(word: String) {
        switch word {
        case "text": self = .text
        case "union": self = .union
        case "list": self = .list
        case "json": self = .json
        case "sqlite": self = .sqlite
        case "binary": self = .binary
        default:
            guard MergeDriver.isName(word) else { return nil }
            self = .program(word)
        }
    }

    /// A name has 1 to 64 characters of `A-Z a-z 0-9 . _ -` and begins with a letter or digit.
    static func isName(_ word: String) -> Bool {
        let bytes = Array(word.utf8)
        guard let first = bytes.first, bytes.count <= 64, isAlphanumeric(first) else {
            return false
        }
        return bytes.allSatisfy { isAlphanumeric($0) || "._-".utf8.contains($0) }
    }
}

extension MergeDriver: CustomStringConvertible {
    package var description: String {
        switch self {
        case .text: "text"
        case .union: "union"
        case .list: "list"
        case .json: "json"
        case .sqlite: "sqlite"
        case .binary: "binary"
        case .program(let name): name
        }
    }
}

func isAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
    default: false
    }
}
