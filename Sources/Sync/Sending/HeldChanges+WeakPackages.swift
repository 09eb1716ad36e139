import Model
import Volume

// What programs change in a weak package under one claim is sent together. The journal's state at
// one moment is complete if no claim to write was held from before that moment until after it, and
// no change was known to be unrecorded then.
extension HeldChanges {
    /// Returns the counters of the last writes to the watched weak packages. It must be called
    /// before the journal is read.
    func lastWrites() -> [[Name]: UInt64] {
        Dictionary(
            uniqueKeysWithValues: watched.compactMap { package in
                tree.lastWrite(package).map { (package, $0) }
            })
    }

    /// Remembers which weak packages must be watched from before the next reading of the journal.
    func watch(_ found: [KeyedDraft]) {
        watched = Set(found.lazy.compactMap(\.weakPackage))
        watched.formUnion(held.values.lazy.compactMap(\.weakPackage))
    }

    /// Leaves out drafts in weak packages that may be incomplete; they wait.
    func whole(
        _ drafts: [KeyedDraft], writes: [[Name]: UInt64], unrecorded: Set<[Name]>, now: Int64
    ) -> [KeyedDraft] {
        let packages = Set(drafts.compactMap(\.weakPackage))
        guard !packages.isEmpty else { return drafts }
        var ends: [[Name]: Int64] = [:]
        for one in held.values where one.until > now {
            if let package = one.weakPackage { ends[package] = max(ends[package] ?? 0, one.until) }
        }
        for package in packages where ends[package] == nil {
            let write = writes[package]
            if write == nil || write != tree.lastWrite(package) || unrecorded.contains(package) {
                ends[package] = now + 50_000_000
            }
        }
        return drafts.filter { keyed in
            guard let package = keyed.weakPackage, let end = ends[package] else { return true }
            held[keyed.key]?.until = end
            return false
        }
    }
}
