import Model

/// A file, directory or symlink of a package. `Content` identifies a content, for example a digest
/// or a list of chunks.
package struct TreeEntry<Content: Hashable & Sendable>: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case file(Content)
        case directory
        case symlink(target: [UInt8])
    }

    /// The path below the package.
    package var path: [Name]
    package var kind: Kind
    /// Permission bits and extended attributes, in a form in which equal attributes have equal
    /// bytes.
    package var attributes: [UInt8]

    package init(path: [Name], kind: Kind, attributes: [UInt8] = []) {
        self.path = path
        self.kind = kind
        self.attributes = attributes
    }
}

package enum MergeSide: Hashable, Sendable {
    case ours
    case theirs
}

/// A three-way merge of packages, entry by entry. It is a pure function of three lists. A rename
/// counts as a removal and a new entry. If one entry is in conflict, the whole package is.
package struct TreeMerge<Content: Hashable & Sendable>: Sendable {
    package typealias Entry = TreeEntry<Content>

    package enum Source: Hashable, Sendable {
        case side(MergeSide)
        /// The file must be merged from the three files.
        case merged(base: Entry, ours: Entry, theirs: Entry)
    }

    package enum Action: Hashable, Sendable {
        /// Takes the whole entry of that side.
        case place(MergeSide)
        case remove
        /// Takes a file or symlink with the content of one source and the attributes of one side.
        case combine(content: Source, attributes: MergeSide)
        /// The text is the end of a sentence.
        case conflict(String)
    }

    package struct Step: Hashable, Sendable {
        package var path: [Name]
        package var action: Action
    }

    /// One step for each path that any of the three has, sorted by path.
    package private(set) var steps: [Step] = []

    package init(base: [Entry], ours: [Entry], theirs: [Entry]) {
        let (before, here, there) = (index(base), index(ours), index(theirs))
        let paths = Set(before.keys).union(here.keys).union(there.keys)
        // Whether an entry may contain others after the merge. An entry in conflict may, so that
        // each conflict is reported once.
        var holds: [[Name]: Bool] = [:]
        for path in paths.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            var action = TreeMerge.action(before[path], here[path], there[path])
            let above = (1..<max(1, path.count)).first { holds[Array(path[..<$0])] == false }
            if action != .remove, let above {
                let parent = path[..<above].map(\.text).joined(separator: "/")
                action = .conflict("is in “\(parent)”, which is a directory on one side only")
            }
            holds[path] = TreeMerge.mayHold(action, here[path], there[path])
            steps.append(Step(path: path, action: action))
        }
    }

    package var conflicts: [Step] {
        steps.filter { if case .conflict = $0.action { true } else { false } }
    }

    private static func mayHold(_ action: Action, _ mine: Entry?, _ other: Entry?) -> Bool {
        switch action {
        case .remove: false
        case .place(.theirs): other?.kind == .directory
        case .place(.ours), .combine: mine?.kind == .directory
        case .conflict: true
        }
    }

    private static func action(_ old: Entry?, _ mine: Entry?, _ other: Entry?) -> Action {
        if mine == other || other == old { return mine == nil ? .remove : .place(.ours) }
        if mine == old { return other == nil ? .remove : .place(.theirs) }
        guard let mine, let other else {
            return .conflict("was removed on one side and changed on the other")
        }
        guard let old else {
            let areDirectories = mine.kind == .directory && other.kind == .directory
            return areDirectories ? .place(.ours) : .conflict("was added on both sides")
        }
        let attributes: MergeSide
        if mine.attributes == other.attributes || other.attributes == old.attributes {
            attributes = .ours
        } else if mine.attributes == old.attributes {
            attributes = .theirs
        } else {
            return .conflict("got different permissions or extended attributes")
        }
        if mine.kind == other.kind || other.kind == old.kind {
            return .combine(content: .side(.ours), attributes: attributes)
        }
        if mine.kind == old.kind {
            return .combine(content: .side(.theirs), attributes: attributes)
        }
        guard case .file = old.kind, case .file = mine.kind, case .file = other.kind else {
            return .conflict("has another kind or symlink target on each side")
        }
        return .combine(
            content: .merged(base: old, ours: mine, theirs: other), attributes: attributes)
    }
}

private func index<Content>(_ entries: [TreeEntry<Content>]) -> [[Name]: TreeEntry<Content>] {
    Dictionary(entries.map { ($0.path, $0) }, uniquingKeysWith: { first, _ in first })
}
