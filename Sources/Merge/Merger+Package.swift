import Model

package enum PackageOutcome<Content: Hashable & Sendable>: Sendable {
    /// What to do with each path, and the bytes of the files whose source is `merged`.
    case clean([TreeMerge<Content>.Step], merged: [[Name]: [UInt8]])
    case conflict(String)
    case unmergeable(String)
    case ask
}

extension Merger {
    /// Merges a package file by file. The result is clean only if all of it is. The rules for the
    /// package's own path apply first, then those for each file that both sides changed.
    /// - Parameters:
    ///   - source: Who saved theirs.
    ///   - contents: Returns the bytes of an entry that is a file.
    package func merge<Content: Hashable & Sendable>(
        package path: [Name], base: [TreeEntry<Content>], ours: [TreeEntry<Content>],
        theirs: [TreeEntry<Content>], isAsked: Bool = false,
        source: MergeInput.Source? = nil,
        contents: (TreeEntry<Content>) throws(VolumeError) -> MergeContent
    ) throws(VolumeError) -> PackageOutcome<Content> {
        let choice = rules.choice(for: path)
        switch Merger.refusal(choice, isAsked: isAsked) {
        case .ask: return .ask
        case .unmergeable(let why): return .unmergeable(why)
        default: break
        }
        if case .program(let name) = choice.driver {
            return .unmergeable("By \(name): programs merge files, and this is a package.")
        }
        let tree = TreeMerge(base: base, ours: ours, theirs: theirs)
        if let step = tree.conflicts.first, case .conflict(let what) = step.action {
            let name = step.path.map(\.text).joined(separator: "/")
            let others = tree.conflicts.count - 1
            let more = others == 0 ? "" : "; other entries in conflict: \(others)"
            return .conflict("In the package, “\(name)” \(what)\(more).")
        }
        var merged: [[Name]: [UInt8]] = [:]
        for step in tree.steps {
            guard case .combine(.merged(let old, let mine, let other), _) = step.action else {
                continue
            }
            let input = MergeInput(
                path: path + step.path, base: try contents(old), ours: try contents(mine),
                theirs: try contents(other), isAsked: isAsked, source: source)
            let name = step.path.map(\.text).joined(separator: "/")
            switch try merge(input) {
            case .clean(let bytes, by: _): merged[step.path] = bytes
            case .conflict(let what): return .conflict("In the package, “\(name)”: \(what)")
            case .unmergeable(let why): return .unmergeable("In the package, “\(name)”: \(why)")
            case .ask: return .ask
            }
        }
        return .clean(tree.steps, merged: merged)
    }
}
