import Model

/// The paths of directories that were looked up since the journal last changed. The items that are
/// read in one transaction are often in the same directories.
final class DirectoryPaths {
    /// `Reader.totalChanges` when the paths were read.
    private var changes = -1
    private var paths: [Int64: [Name]] = [:]

    /// See `Reader.path(of:)`.
    func path(of key: Int64, in reader: Reader) throws(VolumeError) -> [Name]? {
        guard let step = try reader.step(key) else { return key == Item.root ? [] : nil }
        if changes != reader.totalChanges || paths.count > 10_000 {
            paths = [:]
            changes = reader.totalChanges
        }
        if let parent = paths[step.parent] { return parent + [step.name] }
        var names: [Name] = []
        var seen: Set<Int64> = [key]
        var next = step.parent
        while next != Item.root {
            guard seen.insert(next).inserted, let step = try reader.step(next) else { return nil }
            names.append(step.name)
            next = step.parent
        }
        names.reverse()
        paths[step.parent] = names
        return names + [step.name]
    }
}
