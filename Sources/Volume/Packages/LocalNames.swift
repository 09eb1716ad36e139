import Model

/// Decides which names stay local: temporary and lock files that programs create beside documents
/// while they work. They are ordinary files, but never become versions and are never uploaded.
///
/// The patterns have gitignore syntax. Some are built in; a file `.concordignore` at the volume's
/// root adds to them and never deletes anything.
package struct LocalNames: Sendable {
    /// Patterns without a slash. They are compared with the last component only, which is fast.
    private var components: [Pattern] = []
    /// Patterns with a slash. They are compared with the path from the root.
    private var paths: [Pattern] = []

    package static let fileName = SettingsFile.ignored.rawValue
    /// The end of the name under which `fsctl restore` writes a file before it takes its place.
    package static let restorePartEnd = ".concord-restore.part"

    static func isRestorePart(_ name: Name) -> Bool {
        name.bytes.first == UInt8(ascii: ".")
            && name.bytes.suffix(restorePartEnd.utf8.count).elementsEqual(restorePartEnd.utf8)
    }

    private struct Pattern: Sendable {
        var name: NamePattern
        var negated: Bool
        var directoriesOnly: Bool
        /// True for built-in patterns, which do not apply to directories.
        var filesOnly: Bool
    }

    private static let builtIn = [
        ".~lock.*#", "*.swp", "*.swx", "*.swo", "4913", ".goutputstream-*", "~$*", ".#*", "#*#",
        "*.part", "*.partial", "*.crdownload", "*.tmp", ".nfs*", ".fuse_hidden*", "*.*-journal",
        "*-wal", "*-shm",
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
        guard let name = NamePattern(text.utf8) else { return }
        let pattern = Pattern(
            name: name, negated: negated, directoriesOnly: directoriesOnly, filesOnly: isBuiltIn)
        if name.looksAtPaths { paths.append(pattern) } else { components.append(pattern) }
    }

    /// Whether a file with this name is local in every directory.
    package func matches(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        var result = false
        for pattern in components where result == pattern.negated && !pattern.directoriesOnly {
            if pattern.name.matches(name) { result = !pattern.negated }
        }
        return result
    }

    /// Whether the path of a file matters in addition to its name.
    package var looksAtPaths: Bool { !paths.isEmpty }

    package func matches(_ name: Name) -> Bool {
        name.bytes.withUnsafeBufferPointer { matches($0) }
    }

    /// Whether a directory at the root is one in which desktops keep what a user of this machine
    /// has thrown away: `.Trash`, or `.Trash-1000` with a user's number.
    private static func isTrash(_ name: Name) -> Bool {
        let start = Array(".Trash".utf8)
        guard name.bytes.starts(with: start) else { return false }
        let rest = name.bytes.dropFirst(start.count)
        return rest.isEmpty
            || rest.count > 1 && rest.first == UInt8(ascii: "-")
                && rest.dropFirst().allSatisfy { (0x30...0x39).contains($0) }
    }

    /// Whether a pattern matches this path. Nothing below a matching directory becomes a version.
    package func matches(path: [Name], isDirectory: Bool) -> Bool {
        guard let last = path.last else { return false }
        if isDirectory, path.count == 1, LocalNames.isTrash(last) { return true }
        if isDirectory, LocalNames.isRestorePart(last) { return true }
        if !isDirectory, matches(last) { return true }
        let joined = Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
        var result = false
        for pattern in components where isDirectory && !pattern.filesOnly {
            if pattern.name.matches(last.bytes) { result = !pattern.negated }
        }
        for pattern in paths where isDirectory || !pattern.directoriesOnly {
            if pattern.name.matches(joined) { result = !pattern.negated }
        }
        return result
    }
}
