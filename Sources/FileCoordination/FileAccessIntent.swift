import Foundation
import Synchronization

/// An item that a call with several is to read or to write.
///
/// Use ``url`` within the accessor: the item may have been moved while you waited.
public final class FileAccessIntent: Sendable {
    private let current: Mutex<URL>
    private let kind: Access.Kind

    private init(_ url: URL, _ kind: Access.Kind) {
        current = Mutex(url)
        self.kind = kind
    }

    /// To read an item.
    public static func readingIntent(
        with url: URL, options: FileCoordinator.ReadingOptions = []
    ) -> FileAccessIntent { FileAccessIntent(url, .reading(options)) }

    /// To write an item.
    public static func writingIntent(
        with url: URL, options: FileCoordinator.WritingOptions = []
    ) -> FileAccessIntent { FileAccessIntent(url, .writing(options)) }

    /// Where the item is: as given, and from when the turn is given, where it is then.
    public var url: URL { current.withLock { $0 } }

    var access: Access { Access(kind: kind, url: url) }
    func move(to url: URL) { current.withLock { $0 = url } }
}
