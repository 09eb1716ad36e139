/// The files at a volume's root that say how its documents are treated. Each device must be able to
/// read them at any time, so their contents are never only at the hub.
package enum SettingsFile: String, CaseIterable, Sendable {
    /// How documents are merged, and for which ones programs wait (the module `Merge`).
    case rules = ".concordattributes"
    /// What is never sent to other devices (the module `Volume`).
    case ignored = ".concordignore"

    package var name: Name { Name(rawValue) }

    /// Whether the path from the root is that of such a file.
    package static func isOne(_ path: [Name]) -> Bool {
        path.count == 1 && allCases.contains { $0.name == path[0] }
    }
}
