import HubProtocol

/// Reads the XML that WebDAV needs, and refuses all else: a document type, entities but the five
/// that XML defines, processing instructions, other encodings than UTF-8, prefixes that are not
/// declared. Nothing in a body can make it read something else or need more memory than a small
/// multiple of the body.
struct ElementParser {
    /// The limits of a body.
    enum Limits {
        static let bytes = 128 << 10
        static let depth = 32
        static let elements = 4096
        static let attributes = 64
        /// Of a name, and of a namespace. An answer repeats them for each document.
        static let nameBytes = 256
    }

    private let bytes: [UInt8]
    private var position = 0
    private var elements = 0

    /// The namespaces by their prefixes, as the elements around the position declare them.
    private typealias Scope = [String: String]

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Returns the root of a document.
    ///
    /// - Throws: `.malformed`, `.tooLarge`.
    static func parse(_ bytes: [UInt8]) throws(Failure) -> Element {
        guard bytes.count <= Limits.bytes else {
            throw Failure(.tooLarge, "An XML body has at most \(Limits.bytes) bytes.")
        }
        guard let text = String(validating: bytes, as: UTF8.self),
            text.unicodeScalars.allSatisfy(Markup.isAllowed)
        else { throw malformed("it is not UTF-8, or has characters that XML does not allow") }
        var parser = ElementParser(bytes)
        return try parser.document()
    }

    private static func malformed(_ why: String) -> Failure {
        Failure(.malformed, "The XML body cannot be used: \(why).")
    }

    private static let longName = Failure(
        .tooLarge, "A name or a namespace of XML has at most \(Limits.nameBytes) bytes.")

    // MARK: Bytes

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private func isAt(_ text: StaticString) -> Bool {
        let wanted = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        return bytes[position...].starts(with: wanted)
    }

    private mutating func skip(_ text: StaticString) -> Bool {
        guard isAt(text) else { return false }
        position += text.utf8CodeUnitCount
        return true
    }

    @discardableResult
    private mutating func skipSpace() -> Bool {
        let start = position
        while let byte = next, [0x20, 0x9, 0xA, 0xD].contains(byte) { position += 1 }
        return position > start
    }

    /// Returns the text up to the next `end`, and skips both.
    private mutating func text(upTo end: StaticString) throws(Failure) -> String {
        let start = position
        while position < bytes.count, !isAt(end) { position += 1 }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        guard skip(end) else { throw ElementParser.malformed("it ends too early") }
        return text
    }

    // MARK: Structure

    private mutating func document() throws(Failure) -> Element {
        _ = skip("\u{FEFF}")
        if isAt("<?xml") {
            let declaration = try text(upTo: "?>").lowercased()
            if let encoding = declaration.range(of: "encoding") {
                let rest = declaration[encoding.upperBound...]
                guard rest.contains("utf-8") || rest.contains("us-ascii") else {
                    throw ElementParser.malformed("its encoding must be UTF-8")
                }
            }
        }
        try skipBetween()
        guard next == UInt8(ascii: "<") else {
            throw ElementParser.malformed("it does not begin with an element")
        }
        let root = try element(
            ["": "", "xml": Element.language.space], depth: 1)
        try skipBetween()
        guard position == bytes.count else {
            throw ElementParser.malformed("something follows its last element")
        }
        return root
    }

    /// Skips what may stand before and after the root.
    private mutating func skipBetween() throws(Failure) {
        while true {
            skipSpace()
            if skip("<!--") {
                _ = try text(upTo: "-->")
            } else if isAt("<!") {
                throw ElementParser.malformed("a document type is not accepted")
            } else if isAt("<?") {
                throw ElementParser.malformed("processing instructions are not accepted")
            } else {
                return
            }
        }
    }

    private mutating func element(_ outer: Scope, depth: Int) throws(Failure) -> Element {
        elements += 1
        guard depth <= Limits.depth, elements <= Limits.elements else {
            throw Failure(
                .tooLarge,
                "An XML body has at most \(Limits.elements) elements, \(Limits.depth) in each "
                    + "other.")
        }
        position += 1
        let tag = try name()
        var scope = outer
        var raw: [(prefix: String, local: String, value: String)] = []
        while true {
            let hasSpace = skipSpace()
            if isAt(">") || isAt("/>") { break }
            guard hasSpace else { throw ElementParser.malformed("a tag is not well-formed") }
            let attribute = try attribute()
            guard raw.count < Limits.attributes else {
                throw Failure(.tooLarge, "An element has at most \(Limits.attributes) attributes.")
            }
            if try !declare(attribute, in: &scope) {
                raw.append((attribute.name.prefix, attribute.name.local, attribute.value))
            }
        }
        var element = Element(name: try resolved(tag, scope))
        for (prefix, local, value) in raw {
            // An attribute without a prefix has no namespace.
            let name =
                prefix.isEmpty ? ElementName("", local) : try resolved((prefix, local), scope)
            guard !element.attributes.contains(where: { $0.name == name }) else {
                throw ElementParser.malformed("an attribute occurs twice")
            }
            element.attributes.append(.init(name: name, value: value))
        }
        if skip("/>") { return element }
        position += 1
        element.content = try content(scope, depth: depth)
        let end = try name()
        skipSpace()
        guard end == tag, skip(">") else {
            throw ElementParser.malformed("an element does not end with its own tag")
        }
        return element
    }

    /// Reads up to the end tag, and skips its first two characters.
    private mutating func content(_ scope: Scope, depth: Int) throws(Failure) -> [Element.Node] {
        var (nodes, text) = ([Element.Node](), "")
        func flush() {
            if !text.isEmpty { nodes.append(.text(text)) }
            text = ""
        }
        while let byte = next {
            if skip("</") {
                flush()
                return nodes
            } else if skip("<!--") {
                _ = try self.text(upTo: "-->")
            } else if skip("<![CDATA[") {
                text += try self.text(upTo: "]]>")
            } else if isAt("<!") || isAt("<?") {
                throw ElementParser.malformed("declarations are not accepted in an element")
            } else if byte == UInt8(ascii: "<") {
                flush()
                nodes.append(.element(try element(scope, depth: depth + 1)))
            } else {
                text += try characters { $0 == UInt8(ascii: "<") }
            }
        }
        throw ElementParser.malformed("it ends too early")
    }

    /// Reads text, and replaces what stands for characters, up to a byte for which `isEnd` is true.
    private mutating func characters(_ isEnd: (UInt8) -> Bool) throws(Failure) -> String {
        var text = ""
        var start = position
        while let byte = next, !isEnd(byte) {
            guard byte == UInt8(ascii: "&") else {
                position += 1
                continue
            }
            text += String(decoding: bytes[start..<position], as: UTF8.self)
            position += 1
            text.unicodeScalars.append(try reference())
            start = position
        }
        return text + String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func reference() throws(Failure) -> Unicode.Scalar {
        // The longest is that of U+10FFFF.
        guard let end = bytes[position...].prefix(10).firstIndex(of: UInt8(ascii: ";")) else {
            throw ElementParser.malformed("an & does not begin a reference")
        }
        let name = String(decoding: bytes[position..<end], as: UTF8.self)
        position = end + 1
        switch name {
        case "amp": return "&"
        case "lt": return "<"
        case "gt": return ">"
        case "quot": return "\""
        case "apos": return "'"
        default: break
        }
        let isHexadecimal = name.hasPrefix("#x")
        let digits = name.dropFirst(isHexadecimal ? 2 : 1)
        guard name.hasPrefix("#"), !digits.hasPrefix("+"), !digits.hasPrefix("-"),
            let number = UInt32(digits, radix: isHexadecimal ? 16 : 10),
            let scalar = Unicode.Scalar(number), Markup.isAllowed(scalar)
        else { throw ElementParser.malformed("entities are not accepted") }
        return scalar
    }

    // MARK: Names

    private typealias QualifiedName = (prefix: String, local: String)

    private mutating func name() throws(Failure) -> QualifiedName {
        let start = position
        while let byte = next, ElementParser.isInName(byte) { position += 1 }
        let parts = String(decoding: bytes[start..<position], as: UTF8.self).split(
            separator: ":", omittingEmptySubsequences: false
        ).map(String.init)
        let areGood = parts.allSatisfy { part in
            part.utf8.first.map { !ElementParser.isOnlyWithin($0) } ?? false
        }
        guard parts.count <= 2, areGood else {
            throw ElementParser.malformed("a name is not well-formed")
        }
        guard position - start <= Limits.nameBytes else { throw ElementParser.longName }
        return parts.count == 2 ? (parts[0], parts[1]) : ("", parts[0])
    }

    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "_"), UInt8(ascii: ":"), 0x80...:
            true
        default: isOnlyWithin(byte)
        }
    }

    /// Whether a name may not begin with the byte.
    private static func isOnlyWithin(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."): true
        default: false
        }
    }

    private mutating func attribute() throws(Failure) -> (name: QualifiedName, value: String) {
        let name = try name()
        skipSpace()
        guard skip("=") else { throw ElementParser.malformed("an attribute has no value") }
        skipSpace()
        guard let quote = next, quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else {
            throw ElementParser.malformed("an attribute has no value")
        }
        position += 1
        let value = try characters { $0 == quote || $0 == UInt8(ascii: "<") }
        guard next == quote else {
            throw ElementParser.malformed("the value of an attribute does not end")
        }
        position += 1
        return (name, value)
    }

    /// Notes a declaration of a namespace.
    ///
    /// - Returns: Whether the attribute is one.
    private func declare(
        _ attribute: (name: QualifiedName, value: String), in scope: inout Scope
    ) throws(Failure) -> Bool {
        let (name, value) = attribute
        let isDeclaration = name.prefix == "xmlns" || name.prefix.isEmpty && name.local == "xmlns"
        guard !isDeclaration || value.utf8.count <= Limits.nameBytes else {
            throw ElementParser.longName
        }
        if name.prefix.isEmpty, name.local == "xmlns" {
            scope[""] = value
            return true
        }
        guard name.prefix == "xmlns" else { return false }
        guard !value.isEmpty, !["xml", "xmlns"].contains(name.local) else {
            throw ElementParser.malformed("a namespace is declared in a way that is not allowed")
        }
        scope[name.local] = value
        return true
    }

    private func resolved(_ name: QualifiedName, _ scope: Scope) throws(Failure) -> ElementName {
        guard let space = scope[name.prefix] else {
            throw ElementParser.malformed("the prefix \(name.prefix) is not declared")
        }
        return ElementName(space, name.local)
    }
}
