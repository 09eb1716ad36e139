import Model

/// Which names stay local: temporary and lock files, which programs make beside documents while
/// they work. They are files like any other, but never versions and never uploaded.
///
/// The patterns are of gitignore's kind. The built-in ones are DESIGN 4's; a file `.concordignore`
/// at the volume's root adds to them and never deletes anything.
package struct LocalNames: Sendable {
    /// Patterns without a slash: they look at the last component only, so that a hot path can ask.
    private var components: [Pattern] = []
    /// Patterns with a slash: they look at the path from the root.
    private var paths: [Pattern] = []

    package static let fileName = ".concordignore"

    private struct Pattern: Sendable {
        var glob: [UInt8]
        var negated: Bool
        var directoriesOnly: Bool
        /// The built-in ones: a directory of such a name is like any other.
        var filesOnly: Bool
    }

    private static let builtIn = [
        ".~lock.*#", "*.swp", "*.swx", "*.swo", "4913", ".goutputstream-*", "~$*", ".#*", "#*#",
        "*.part", "*.partial", "*.crdownload", "*.tmp", ".nfs*", ".fuse_hidden*", "*.*-journal",
        "*.*-wal", "*.*-shm",
    ]

    package init(ignoreFile text: String = "") {
        for line in LocalNames.builtIn { add(line[...], isBuiltIn: true) }
        for line in text.split(whereSeparator: \.isNewline) where line.first != "#" {
            add(line, isBuiltIn: false)
        }
    }

    private mutating func add(_ line: Substring, isBuiltIn: Bool) {
        var text = line
        while text.last == " " { text.removeLast() }
        let negated = text.first == "!"
        if negated { text.removeFirst() }
        if text.hasPrefix("\\#") || text.hasPrefix("\\!") { text.removeFirst() }
        let directoriesOnly = text.last == "/"
        if directoriesOnly { text.removeLast() }
        let hasSlash = text.contains("/")
        if text.first == "/" { text.removeFirst() }
        guard !text.isEmpty else { return }
        let pattern = Pattern(
            glob: Array(text.utf8), negated: negated, directoriesOnly: directoriesOnly,
            filesOnly: isBuiltIn)
        if hasSlash { paths.append(pattern) } else { components.append(pattern) }
    }

    /// Whether a file of that name is local wherever it is.
    package func matches(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        var result = false
        for pattern in components where result == pattern.negated && !pattern.directoriesOnly {
            let hit = pattern.glob.withUnsafeBufferPointer { globMatches($0[...], name[...]) }
            if hit { result = !pattern.negated }
        }
        return result
    }

    /// Whether the place of a file matters, not its name alone.
    package var looksAtPaths: Bool { !paths.isEmpty }

    package func matches(_ name: Name) -> Bool {
        name.bytes.withUnsafeBufferPointer { matches($0) }
    }

    /// Whether the ignore file names that directory, or that path: nothing below it is a version.
    package func matches(path: [Name], isDirectory: Bool) -> Bool {
        guard let last = path.last else { return false }
        if !isDirectory, matches(last) { return true }
        let joined = Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
        var result = false
        for pattern in components where isDirectory && !pattern.filesOnly {
            if covers(pattern.glob, last.bytes) { result = !pattern.negated }
        }
        for pattern in paths where isDirectory || !pattern.directoriesOnly {
            if covers(pattern.glob, joined) { result = !pattern.negated }
        }
        return result
    }

    private func covers(_ glob: [UInt8], _ text: [UInt8]) -> Bool {
        glob.withUnsafeBufferPointer { pattern in
            text.withUnsafeBufferPointer { globMatches(pattern[...], $0[...]) }
        }
    }
}

/// Shell globbing as gitignore has it: `*` and `?` within a component, `**` across them, `[a-z]`
/// and `[!a-z]`.
func globMatches(
    _ pattern: Slice<UnsafeBufferPointer<UInt8>>, _ text: Slice<UnsafeBufferPointer<UInt8>>
) -> Bool {
    var pattern = pattern
    var text = text
    while let next = pattern.first {
        switch next {
        case UInt8(ascii: "*"):
            return starMatches(pattern.dropFirst(), text)
        case UInt8(ascii: "?"):
            guard let byte = text.first, byte != UInt8(ascii: "/") else { return false }
            (pattern, text) = (pattern.dropFirst(), text.dropFirst())
        case UInt8(ascii: "["):
            guard let byte = text.first, let rest = classMatches(pattern.dropFirst(), byte) else {
                return false
            }
            (pattern, text) = (rest, text.dropFirst())
        case UInt8(ascii: "\\") where pattern.count > 1:
            pattern = pattern.dropFirst()
            fallthrough
        default:
            guard text.first == pattern.first else { return false }
            (pattern, text) = (pattern.dropFirst(), text.dropFirst())
        }
    }
    return text.isEmpty
}

private func starMatches(
    _ rest: Slice<UnsafeBufferPointer<UInt8>>, _ text: Slice<UnsafeBufferPointer<UInt8>>
) -> Bool {
    let acrossComponents = rest.first == UInt8(ascii: "*")
    var rest = acrossComponents ? rest.dropFirst() : rest
    var text = text
    if acrossComponents, rest.first == UInt8(ascii: "/"), globMatches(rest.dropFirst(), text) {
        return true
    }
    if acrossComponents { rest = rest[...] }
    while true {
        if globMatches(rest, text) { return true }
        guard let byte = text.first, acrossComponents || byte != UInt8(ascii: "/") else {
            return false
        }
        text = text.dropFirst()
    }
}

/// What follows the closing bracket when the byte is in the class, nil when it is not.
private func classMatches(_ pattern: Slice<UnsafeBufferPointer<UInt8>>, _ byte: UInt8)
    -> Slice<UnsafeBufferPointer<UInt8>>?
{
    var rest = pattern
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
    guard rest.first == UInt8(ascii: "]"), found != negated, byte != UInt8(ascii: "/") else {
        return nil
    }
    return rest.dropFirst()
}
