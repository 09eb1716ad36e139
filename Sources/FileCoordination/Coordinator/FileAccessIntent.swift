import Foundation
import Synchronization

/// One of several items that a call reads or writes.
///
/// Use ``url`` within the accessor, because the item may have been moved while the call waited.
public final class FileAccessIntent: Sendable {
    private let current: Mutex<URL>
    private let kind: Access.Kind

    private init(_ url: URL, _ kind: Access.Kind) {
        current = Mutex(url)
        self.kind = kind
    }

    /// An intent to read an item.
    public static func readingIntent(
        with url: URL, options: FileCoordinator.ReadingOptions = []
    ) -> FileAccessIntent { FileAccessIntent(url, .reading(options)) }

    /// An intent to write an item.
    public static func writingIntent(
        with url: URL, options: FileCoordinator.WritingOptions = []
    ) -> FileAccessIntent { FileAccessIntent(url, .writing(options)) }

    /// Where the item is: the given URL and, once the access is granted, the item's place at that
    /// time.
    public var url: URL { current.withLock { $0 } }

    var access: Access { Access(kind: kind, url: url) }
    func move(to url: URL) { current.withLock { $0 = url } }
}
