import Control
import Foundation
import Model

extension FileVersion {
    /// How a version replaces a file. The raw value is Apple's.
    public struct ReplacingOptions: OptionSet, Hashable, Sendable {
        /// The bits of the set.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The version is removed afterwards, as by ``FileVersion/remove()``, and settled if it is
        /// in conflict. Without this option it stays.
        public static let byMoving = ReplacingOptions(rawValue: 1)
    }

    /// Replaces a file or package by the contents of this version, in one step, and returns where
    /// the item is now.
    ///
    /// An existing item keeps its name, its permissions and its extended attributes, and its old
    /// contents become a version (Rows.md, B3.13). Only if its type differs, its extension changes
    /// to that of the version. If nothing is at `url`, a new item is made; so a version can be kept
    /// beside the current one.
    ///
    /// Call it within a coordinated write of `url`, and for a version of another type within one of
    /// the whole directory. It does not coordinate by itself. Contents that are not on this device
    /// are downloaded. Afterwards settle or remove the version, and let open documents be read
    /// again (``Document/revert(toContentsOf:)``).
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the version is no longer kept.
    ///   `CocoaError` for errors of the file system; `.fileWriteFileExists` when another item has
    ///   the name with the version's extension. Then nothing has changed.
    @discardableResult
    public func replaceItem(at url: URL, options: ReplacingOptions = []) throws -> URL {
        guard let source = self.url, let name = localizedName else {
            throw FileCoordinationError(
                .unavailable, "that version of \(FilePath(itemURL)) is no longer kept")
        }
        let contents = try FileWrapper(url: source, options: .immediate)
        contents.makeWritable()
        // The contents are old, but they change the item now, so it gets the present time.
        contents.fileAttributes.modificationDate = nil
        let result = url.named(as: name)
        let (old, target) = (FilePath(url), FilePath(result))
        guard old == target || target.kind == nil else {
            throw CocoaError(
                .fileWriteFileExists, userInfo: [NSFilePathErrorKey: target.description])
        }
        let draft = target.draft
        do {
            try contents.write(to: URL(draft))
            if draft.kind == old.kind { draft.takeAttributes(of: old) }
            // The rename keeps the item, with its history, under its new name.
            if old != target { try old.move(to: target) }
            do { try draft.install(at: target) } catch {
                if old != target { try? target.move(to: old) }
                throw error
            }
        } catch {
            draft.remove()
            throw error
        }
        if options.contains(.byMoving) { try remove() }
        return result
    }
}

extension FileWrapper {
    /// Versions appear as read-only files. A document made of one must be writable.
    fileprivate func makeWritable() {
        if let permissions = fileAttributes.permissions {
            fileAttributes.permissions = permissions | 0o200
        }
        for child in (fileWrappers ?? [:]).values { child.makeWritable() }
    }
}

extension URL {
    /// This URL, with the extension of `name` if an item with another extension is here.
    fileprivate func named(as name: String) -> URL {
        let wanted = (name as NSString).pathExtension
        guard FilePath(self).kind != nil, pathExtension.lowercased() != wanted.lowercased() else {
            return self
        }
        let stem = deletingPathExtension()
        return wanted.isEmpty ? stem : stem.appendingPathExtension(wanted)
    }
}
