import Support
import Testing

/// The two ways contents take: straight from the kernel to the file, or through the daemon. What
/// programs see must be the same; each test of contents runs on both.
enum DataPath: String, CaseIterable, CustomTestStringConvertible {
    case passthrough, nopassthrough

    var testDescription: String { rawValue }

    /// A volume of its own for `body`.
    func with(
        options: [String] = [], _ body: (MountedVolume) throws -> Void
    ) throws {
        try MountedVolume.with(
            options: options + (self == .passthrough ? [] : [rawValue]), body)
    }
}
