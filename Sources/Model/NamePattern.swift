/// A pattern for names and paths, with gitignore's syntax: `*` and `?` match within a component,
/// `[a-z]` and `[!a-z]` are character classes, a backslash quotes the next character, and `**` as a
/// whole component matches any number of components. A pattern with a slash is matched against the
/// path from the root; any other pattern is matched against the last component. (Callers remove a
/// slash at the end first.)
///
/// Patterns come from files that are synchronized, so they may be hostile: matching takes at most
/// (length of pattern) × (length of text)² steps, whatever the pattern is.
package struct NamePattern: Hashable, Sendable {
    /// The pattern without a leading slash, which only says that it is matched from the root.
    package let glob: [UInt8]
    package let looksAtPaths: Bool

    /// Returns nil for an empty pattern.
    package init?(_ text: some Collection<UInt8>) {
        looksAtPaths = text.contains(UInt8(ascii: "/"))
        glob = Array(text.first == UInt8(ascii: "/") ? text.dropFirst() : text[...])
        if glob.isEmpty { return nil }
    }

    /// Whether the pattern matches the whole text: a component, or a path from the root.
    package func matches(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        glob.withUnsafeBufferPointer {
            var globbing = Globbing(pattern: $0, text: text)
            return globbing.succeeds()
        }
    }

    package func matches(_ text: [UInt8]) -> Bool {
        text.withUnsafeBufferPointer { matches($0) }
    }

    /// Whether the pattern matches the item at that path.
    package func matches(path: [Name]) -> Bool {
        guard let last = path.last else { return false }
        if !looksAtPaths { return matches(last.bytes) }
        return matches(Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")])))
    }
}

/// Matches one pattern against one text. Only the last of several stars has to be retried with a
/// longer match, because those before it have matched as early as they can. The same is true of
/// `**`, for whole components.
private struct Globbing {
    let pattern: UnsafeBufferPointer<UInt8>
    let text: UnsafeBufferPointer<UInt8>
    var at = 0
    var here = 0
    /// Where matching continues, in the pattern and in the text, when the last `*` takes one more
    /// byte.
    var star: (at: Int, here: Int)?
    /// The same for the last `**`, which takes one more component.
    var components: (at: Int, here: Int)?

    init(pattern: UnsafeBufferPointer<UInt8>, text: UnsafeBufferPointer<UInt8>) {
        self.pattern = pattern
        self.text = text
    }

    private static let slash = UInt8(ascii: "/")

    mutating func succeeds() -> Bool {
        while true {
            if takesStars() { continue }
            if at == pattern.count && here == text.count { return true }
            if takesOne() { continue }
            if !starTakesMore() { return false }
        }
    }

    /// Steps over `*` or `**` and remembers the position.
    private mutating func takesStars() -> Bool {
        guard at < pattern.count, pattern[at] == UInt8(ascii: "*") else { return false }
        var end = at
        while end < pattern.count, pattern[end] == UInt8(ascii: "*") { end += 1 }
        let isComponent =
            end - at >= 2 && (at == 0 || pattern[at - 1] == Globbing.slash)
            && (end == pattern.count || pattern[end] == Globbing.slash)
        if isComponent {
            at = end == pattern.count ? end : end + 1
            components = (at, here)
            star = nil
        } else {
            at = end
            star = (at, here)
        }
        return true
    }

    private mutating func takesOne() -> Bool {
        guard at < pattern.count, here < text.count else { return false }
        let byte = text[here]
        switch pattern[at] {
        case UInt8(ascii: "?"):
            guard byte != Globbing.slash else { return false }
            at += 1
        case UInt8(ascii: "["):
            guard let end = endOfClass(holding: byte) else { return false }
            at = end
        case UInt8(ascii: "\\") where at + 1 < pattern.count:
            guard pattern[at + 1] == byte else { return false }
            at += 2
        default:
            guard pattern[at] == byte else { return false }
            at += 1
        }
        here += 1
        return true
    }

    private mutating func starTakesMore() -> Bool {
        if let (next, from) = star, from < text.count, text[from] != Globbing.slash {
            star = (next, from + 1)
            (at, here) = (next, from + 1)
            return true
        }
        star = nil
        guard let (next, from) = components else { return false }
        if next == pattern.count {
            (at, here) = (next, text.count)
            components = nil
            return true
        }
        guard let slash = text[from...].firstIndex(of: Globbing.slash) else { return false }
        components = (next, slash + 1)
        (at, here) = (next, slash + 1)
        return true
    }

    /// The position after the closing bracket if the byte is in the class, else nil.
    private func endOfClass(holding byte: UInt8) -> Int? {
        var rest = pattern[(at + 1)...]
        let negated = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if negated { rest = rest.dropFirst() }
        var found = false
        var isFirst = true
        while let low = rest.first, isFirst || low != UInt8(ascii: "]") {
            isFirst = false
            rest = rest.dropFirst()
            var high = low
            if rest.first == UInt8(ascii: "-"), let end = rest.dropFirst().first,
                end != UInt8(ascii: "]")
            {
                high = end
                rest = rest.dropFirst(2)
            }
            if low <= byte && byte <= high { found = true }
        }
        guard rest.first == UInt8(ascii: "]"), found != negated, byte != Globbing.slash else {
            return nil
        }
        return rest.startIndex + 1
    }
}
