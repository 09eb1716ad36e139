/// The name of an XML element or attribute.
struct ElementName: Hashable, Sendable {
    /// The URI of the namespace; empty for none.
    var space: String
    var local: String

    init(_ space: String, _ local: String) {
        self.space = space
        self.local = local
    }

    static func dav(_ local: String) -> ElementName { ElementName("DAV:", local) }
}

/// A part of an XML document as a client has sent it.
struct Element: Hashable, Sendable {
    enum Node: Hashable, Sendable {
        case text(String)
        case element(Element)
    }

    struct Attribute: Hashable, Sendable {
        var name: ElementName
        var value: String
    }

    var name: ElementName
    var attributes: [Attribute] = []
    var content: [Node] = []

    static let language = ElementName("http://www.w3.org/XML/1998/namespace", "lang")

    var children: [Element] {
        content.compactMap { node in
            guard case .element(let child) = node else { return nil }
            return child
        }
    }

    func child(_ name: ElementName) -> Element? { children.first { $0.name == name } }

    /// The text directly in the element, without white space at both ends.
    var text: String {
        let all = content.map { node in
            guard case .text(let text) = node else { return "" }
            return text
        }
        return Markup.trimmed(all.joined())
    }

    /// The element as a text that means the same in each document; nil if that is longer. It can
    /// be much longer than what a client has sent, because it has no prefixes.
    ///
    /// - Parameter outer: The default namespace where the text is put.
    func serialized(in outer: String = "", atMost bytes: Int) -> String? {
        var text = ""
        return append(to: &text, in: outer, atMost: bytes) ? text : nil
    }

    /// Returns whether the text has at most so many bytes.
    private func append(to text: inout String, in outer: String, atMost bytes: Int) -> Bool {
        text += "<\(name.local)"
        if name.space != outer { text += " xmlns=\"\(Markup.escaped(name.space))\"" }
        for (index, attribute) in attributes.enumerated() {
            let value = Markup.escaped(attribute.value)
            if attribute.name.space.isEmpty {
                text += " \(attribute.name.local)=\"\(value)\""
            } else if attribute.name.space == Element.language.space {
                text += " xml:\(attribute.name.local)=\"\(value)\""
            } else {
                let space = Markup.escaped(attribute.name.space)
                text +=
                    " xmlns:a\(index)=\"\(space)\" a\(index):\(attribute.name.local)=\"\(value)\""
            }
        }
        guard !content.isEmpty else {
            text += "/>"
            return text.utf8.count <= bytes
        }
        text += ">"
        for node in content {
            switch node {
            case .text(let part): text += Markup.escaped(part)
            case .element(let child):
                guard child.append(to: &text, in: name.space, atMost: bytes) else { return false }
            }
        }
        text += "</\(name.local)>"
        return text.utf8.count <= bytes
    }
}

extension ElementName {
    /// An empty element of this name.
    var element: String {
        let space = self.space.isEmpty ? "" : " xmlns=\"\(Markup.escaped(self.space))\""
        return "<\(local)\(space)/>"
    }
}

/// Text in XML.
enum Markup {
    static let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"

    /// Text for an element or an attribute. Characters that XML does not allow become U+FFFD.
    static func escaped(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "\t", "\n", "\r": result += "&#\(scalar.value);"
            default: result.unicodeScalars.append(isAllowed(scalar) ? scalar : "\u{FFFD}")
            }
        }
        return result
    }

    static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x9, 0xA, 0xD: true
        case ..<0x20, 0xFFFE, 0xFFFF: false
        default: true
        }
    }

    static func trimmed(_ text: String) -> String {
        let space: Set<Character> = [" ", "\t", "\n", "\r", "\r\n"]
        let start = text.drop { space.contains($0) }
        var end = start
        while let last = end.last, space.contains(last) { end.removeLast() }
        return String(end)
    }
}
