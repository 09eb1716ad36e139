import Support
import Testing

/// The two paths of data: directly from the kernel to the file, or through the daemon. Programs
/// must see the same on both, so each test of contents runs on both.
enum DataPath: String, CaseIterable, CustomTestStringConvertible {
    case passthrough, nopassthrough

    var testDescription: String { rawValue }

    /// Mounts a new volume for `body`.
    func with(
        options: [String] = [], _ body: (MountedVolume) throws -> Void
    ) throws {
        try MountedVolume.with(
            options: options + (self == .passthrough ? [] : [rawValue]), body)
    }
}
