import Model
import Volume

// What programs change in a weak package in one turn goes to the hub together. What is in the
// journal at one moment is all of it when no turn to write was under way from before that moment
// until after it, and nothing was known to be unrecorded then.
extension SyncEngine {
    /// Of the weak packages that have something to tell, before the journal is read.
    func lastWrites() -> [[Name]: UInt64] {
        Dictionary(
            uniqueKeysWithValues: watched.compactMap { package in
                tree.lastWrite(package).map { (package, $0) }
            })
    }

    /// Those are looked at before the journal is read the next time.
    func watch(_ found: [KeyedDraft]) {
        watched = Set(found.lazy.compactMap(\.weakPackage))
        watched.formUnion(held.values.lazy.compactMap(\.weakPackage))
    }

    /// Without those in a weak package that may not be whole: they wait.
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
