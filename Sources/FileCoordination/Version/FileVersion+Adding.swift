import Control
import Foundation
import Model

extension FileVersion {
    /// How contents become a version. The raw value is Apple's.
    public struct AddingOptions: OptionSet, Hashable, Sendable {
        /// The bits of the set.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The file that contains them is removed afterwards.
        public static let byMoving = AddingOptions(rawValue: 1)
    }

    /// Adds the contents of a file or package as a version of an item, whose current contents do
    /// not change (Rows.md, B3.6). The version is among the ``otherVersionsOfItem(at:)`` and is
    /// kept as long as any older version; ``setDiscardable(_:)`` keeps it for good.
    ///
    /// Everything that is saved is a version anyway. This is for contents that were never saved
    /// under the item's name. The version stays on this device; only versions that were current or
    /// in conflict are sent to others.
    ///
    /// Call it within a coordinated write of `url`, and of `contents` if that is moved. It does not
    /// coordinate by itself.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when `url` is on no mounted volume or
    ///   does not exist, `.invalid` when one of them is a file and the other a package.
    ///   `CocoaError` for errors of the file system. Then nothing has changed.
    @discardableResult
    public static func addVersionOfItem(
        at url: URL, withContentsOf contents: URL, options: AddingOptions = []
    ) throws -> FileVersion {
        let item = FilePath(url)
        guard let place = try item.place(), item.kind != nil else {
            throw FileCoordinationError(
                .unavailable, "\(item) is on no Concord volume or does not exist")
        }
        let draft = item.draft
        defer { draft.remove() }
        try FileManager.default.copyItem(at: contents, to: URL(draft))
        var request = Request(.add, path: place.components)
        request.from = RawText(path: place.components.dropLast() + [draft.name])
        request.program = ProcessInfo.processInfo.processName
        let added: AdditionReport
        do throws(VolumeError) {
            added = try ControlClient(socket: place.socket).ask(request, as: AdditionReport.self)
        } catch { throw FileCoordinationError(error) }
        if options.contains(.byMoving) { FilePath(contents).remove() }
        return FileVersion(itemURL: url, persistentIdentifier: added.id)
    }
}
