import Journal
import Model

/// Conflict versions that are merged only when a person asks for it. Each is a content that a
/// program overwrote without having seen it (`stale=conflict`); the program's save stays the
/// current version until then, byte for byte. The list is a value of the journal of the device
/// where it happened.
enum ManualMergeVersions {
    private static let key = "apart"

    static func all(_ t: Reader) throws(VolumeError) -> Set<Identifier> {
        let text = try t.value(key) ?? ""
        return Set(text.split(separator: " ").compactMap { Identifier(String($0)) })
    }

    /// Adds versions, and removes those that are resolved.
    static func add(_ versions: [Identifier], _ t: Transaction) throws(VolumeError) {
        var open: [Identifier] = []
        for id in try all(t) where try t.version(id: id)?.version.kind == .conflict {
            open.append(id)
        }
        try t.set(key, to: (open + versions).map(\.description).joined(separator: " "))
    }
}
