import HubProtocol

/// The header `If` (RFC 4918, 10.4): lists of conditions, of which at least one must be true as a
/// whole.
struct IfHeader: Hashable, Sendable {
    struct Condition: Hashable, Sendable {
        enum Subject: Hashable, Sendable {
            /// The URI of a lock, or another one, such as `DAV:no-lock`.
            case token(String)
            /// With the quotes, and `W/` if it is weak.
            case tag(String)
        }

        let isNegated: Bool
        let subject: Subject
    }

    struct List: Hashable, Sendable {
        /// Nil for what the request names.
        let resource: String?
        let conditions: [Condition]
    }

    let lists: [List]

    private static let most = 64

    /// Every token in the header counts as submitted.
    var tokens: [String] {
        lists.flatMap(\.conditions).compactMap { condition in
            guard case .token(let uri) = condition.subject else { return nil }
            return uri
        }
    }

    /// - Throws: `.malformed`.
    init(_ text: String) throws(Failure) {
        var scanner = Scanner(bytes: Array(text.utf8))
        var (lists, resource, isTagged) = ([List](), String?.none, Bool?.none)
        while !scanner.isAtEnd {
            if scanner.isAt("<") {
                // A header has lists for named resources, or for that of the request, but not both.
                guard isTagged != false else { throw Scanner.malformed }
                isTagged = true
                resource = try scanner.enclosed("<", ">")
                guard scanner.isAt("(") else { throw Scanner.malformed }
            }
            guard scanner.isAt("(") else { throw Scanner.malformed }
            isTagged = isTagged ?? false
            lists.append(List(resource: resource, conditions: try scanner.conditions()))
            guard lists.count <= IfHeader.most else { throw Scanner.malformed }
        }
        guard !lists.isEmpty else { throw Scanner.malformed }
        self.lists = lists
    }

    private struct Scanner {
        let bytes: [UInt8]
        var position = 0

        static let malformed = Failure(
            .malformed, "The header If is not one of RFC 4918, or has too many lists.")

        init(bytes: [UInt8]) {
            self.bytes = bytes
            skipSpace()
        }

        var isAtEnd: Bool { position == bytes.count }

        private mutating func skipSpace() {
            while position < bytes.count, [0x20, 0x9].contains(bytes[position]) { position += 1 }
        }

        func isAt(_ character: Unicode.Scalar) -> Bool {
            position < bytes.count && UInt32(bytes[position]) == character.value
        }

        private mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard isAt(character) else { return false }
            position += 1
            skipSpace()
            return true
        }

        /// The text between two characters, which must not be empty.
        mutating func enclosed(_ start: Unicode.Scalar, _ end: Unicode.Scalar) throws(Failure)
            -> String
        {
            position += 1
            let first = position
            while position < bytes.count, !isAt(end) { position += 1 }
            let text = String(decoding: bytes[first..<position], as: UTF8.self)
            guard !text.isEmpty, !text.contains(" "), skip(end) else { throw Scanner.malformed }
            return text
        }

        mutating func conditions() throws(Failure) -> [Condition] {
            guard skip("(") else { throw Scanner.malformed }
            var conditions: [Condition] = []
            while !isAt(")") {
                let word = bytes[position...].prefix(3)
                let isNegated = String(decoding: word, as: UTF8.self).lowercased() == "not"
                if isNegated {
                    position += 3
                    skipSpace()
                }
                if isAt("<") {
                    let uri = try enclosed("<", ">")
                    conditions.append(Condition(isNegated: isNegated, subject: .token(uri)))
                } else if isAt("[") {
                    conditions.append(Condition(isNegated: isNegated, subject: .tag(try tag())))
                } else {
                    throw Scanner.malformed
                }
                guard conditions.count <= IfHeader.most else { throw Scanner.malformed }
            }
            guard skip(")"), !conditions.isEmpty else { throw Scanner.malformed }
            return conditions
        }

        /// An entity tag may contain a bracket.
        private mutating func tag() throws(Failure) -> String {
            guard skip("[") else { throw Scanner.malformed }
            let start = position
            if bytes[position...].starts(with: "W/".utf8) { position += 2 }
            guard isAt("\"") else { throw Scanner.malformed }
            position += 1
            while position < bytes.count, !isAt("\"") { position += 1 }
            guard isAt("\"") else { throw Scanner.malformed }
            position += 1
            let text = String(decoding: bytes[start..<position], as: UTF8.self)
            skipSpace()
            guard skip("]") else { throw Scanner.malformed }
            return text
        }
    }
}
