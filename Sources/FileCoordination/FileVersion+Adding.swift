import Control
import Foundation
import Model

extension FileVersion {
    /// How contents become a version. The number is Apple's.
    public struct AddingOptions: OptionSet, Hashable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The file that they come from is removed afterwards.
        public static let byMoving = AddingOptions(rawValue: 1)
    }

    /// Keeps the contents of a file or package as a version of an item, which goes on showing what
    /// it shows (Rows.md, B3.6). It is among the
    /// ``otherVersionsOfItem(at:)``, for as long as any older version: ``setDiscardable(_:)`` keeps
    /// it for good.
    ///
    /// What is saved is a version anyway: this is for what was never saved under the item's name.
    /// It stays on this device; only what was current, or in conflict, travels.
    ///
    /// Call it within a coordinated write of `url`, and of `contents` if that is moved; nothing
    /// coordinates here.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when `url` is on no mounted volume,
    ///   `.invalid` when one of them is a file and the other a package. `CocoaError`: what the file
    ///   system says. Nothing has changed then.
    @discardableResult
    public static func addVersionOfItem(
        at url: URL, withContentsOf contents: URL, options: AddingOptions = []
    ) throws -> FileVersion {
        let item = FilePath(url)
        guard let place = try item.place(), item.kind != nil else {
            throw FileCoordinationError(
                .unavailable, "\(item) is on no volume of Concord, or not there")
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
