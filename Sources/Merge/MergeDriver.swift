/// What makes one content of two.
package enum MergeDriver: Hashable, Sendable {
    /// By lines, as `git merge` does it.
    case text
    /// By lines, and where both sides changed the same ones, the lines of both: ours, then theirs.
    case union
    /// By lines where that gives JSON, else by key.
    case json
    /// Databases row by row.
    case sqlite
    /// Never merged.
    case binary
    /// A program that this machine's own file defines under that name.
    case program(String)

    /// The word behind `merge=`; nil when it is none.
    init?(word: String) {
        switch word {
        case "text": self = .text
        case "union": self = .union
        case "json": self = .json
        case "sqlite": self = .sqlite
        case "binary": self = .binary
        default:
            guard MergeDriver.isName(word) else { return nil }
            self = .program(word)
        }
    }

    /// 1 to 64 of `A-Z a-z 0-9 . _ -`, the first of them no punctuation.
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
