import Foundation

/// A version of an item, as presenters hear of one.
///
/// Two are equal when they are the same version of the same file.
public struct FileVersion: Hashable, Sendable {
    /// The item it is a version of.
    public let itemURL: URL
    /// Its name for as long as it is kept, on this device: the number in `fsctl versions`.
    public let persistentIdentifier: String
}
