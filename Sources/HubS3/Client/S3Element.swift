import Model

/// An element of an XML answer of S3: texts and elements, without attributes. FoundationXML would
/// load libxml2 in each program, also in those that only mount.
struct S3Element: Hashable, Sendable {
    let name: String
    var text = ""
    var children: [S3Element] = []

    private static let depthMax = 16

    /// Returns nil for bytes that are not a whole document.
    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        var rest = text[...]
        guard let root = S3Element.parse(&rest, depth: 0) else { return nil }
        self = root
    }

    private init(name: String) { self.name = name }

    private static func parse(_ rest: inout Substring, depth: Int) -> S3Element? {
        guard depth < depthMax else { return nil }
        skipProlog(&rest)
        guard let tag = tag(&rest), !tag.hasPrefix("/"), !tag.hasPrefix("!") else { return nil }
        let name = tag.prefix { !$0.isWhitespace && $0 != "/" }
        var element = S3Element(name: String(name))
        if tag.hasSuffix("/") { return element }
        while true {
            let text = rest.prefix { $0 != "<" }
            element.text += unescaped(text)
            rest = rest[text.endIndex...]
            if rest.hasPrefix("</") {
                guard let end = self.tag(&rest), end.dropFirst() == name else { return nil }
                return element
            }
            guard let child = parse(&rest, depth: depth + 1) else { return nil }
            element.children.append(child)
        }
    }

    /// Skips white space and declarations before an element.
    private static func skipProlog(_ rest: inout Substring) {
        while true {
            rest = rest.drop(while: \.isWhitespace)
            guard rest.hasPrefix("<?"), tag(&rest) != nil else { return }
        }
    }

    /// Takes what is between the next angle brackets.
    private static func tag(_ rest: inout Substring) -> Substring? {
        guard rest.first == "<", let end = rest.firstIndex(of: ">") else { return nil }
        defer { rest = rest[rest.index(after: end)...] }
        return rest[rest.index(after: rest.startIndex)..<end]
    }

    private static func unescaped(_ text: Substring) -> String {
        guard text.contains("&") else { return String(text) }
        let names = [
            "&lt;": "<", "&gt;": ">", "&quot;": "\"", "&#34;": "\"", "&apos;": "'", "&#39;": "'",
        ]
        let plain = names.reduce(String(text)) { $0.replacing($1.key, with: $1.value) }
        return plain.replacing("&amp;", with: "&")
    }

    /// The text of the first child with this name.
    subscript(_ name: String) -> String? { children.first { $0.name == name }?.text }

    func all(_ name: String) -> [S3Element] { children.filter { $0.name == name } }
}
