import Journal
import Model

/// Conflict versions that nothing merges until a person asks for it: what a program overwrote that
/// had not seen it. Its save is the current version, byte for byte, for as long as that person
/// likes (`stale=conflict`). A value of the journal, on the device where it happened.
enum ApartVersions {
    private static let key = "apart"

    static func all(_ t: Reader) throws(VolumeError) -> Set<Identifier> {
        let text = try t.value(key) ?? ""
        return Set(text.split(separator: " ").compactMap { Identifier(String($0)) })
    }

    /// Adds some, and forgets those that are settled.
    static func add(_ versions: [Identifier], _ t: Transaction) throws(VolumeError) {
        var open: [Identifier] = []
        for id in try all(t) where try t.version(id: id)?.version.kind == .conflict {
            open.append(id)
        }
        try t.set(key, to: (open + versions).map(\.description).joined(separator: " "))
    }
}

extension Volume {
    /// Conflict versions that are merged only when a person asks.
    package func apartVersions() throws(VolumeError) -> Set<Identifier> {
        try journal.read { reader in try ApartVersions.all(reader) }
    }
}
