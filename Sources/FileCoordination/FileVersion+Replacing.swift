import Control
import Foundation
import Model

extension FileVersion {
    /// How a version takes a file's place. The number is Apple's.
    public struct ReplacingOptions: OptionSet, Hashable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The version is removed afterwards, as ``FileVersion/remove()`` does, and settled if it
        /// is in conflict. Without it, it stays what it is.
        public static let byMoving = ReplacingOptions(rawValue: 1)
    }

    /// Makes these contents those of a file or package, in one step, and returns where that is now.
    ///
    /// A target that is there keeps its name, its permissions and its extended attributes, and what
    /// it showed is a version of it from then on (Rows.md, B3.13). Only where it is of
    /// another type, its extension becomes that of the version. Where nothing is, a new item is
    /// made: so a version is kept beside the current one.
    ///
    /// Call it within a coordinated write of `url`, and for a version of another type of the whole
    /// directory's; nothing coordinates here. What is not on this device is downloaded. Then settle
    /// or remove the version, and let a document that is open be read again
    /// (``Document/revert(toContentsOf:)``).
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the version is not kept any more.
    ///   `CocoaError`: what the file system says; `.fileWriteFileExists` when the name with the
    ///   version's extension is somebody else's. Nothing has changed then.
    @discardableResult
    public func replaceItem(at url: URL, options: ReplacingOptions = []) throws -> URL {
        guard let source = self.url, let name = localizedName else {
            throw FileCoordinationError(
                .unavailable, "that version of \(FilePath(itemURL)) is not kept any more")
        }
        let contents = try FileWrapper(url: source, options: .immediate)
        contents.makeWritable()
        // The contents are old, but the change is of now.
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
            // The same item, with the same history, under its new name.
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
    /// Versions are shown as files that nobody may write; what is made of them is not one.
    fileprivate func makeWritable() {
        if let permissions = fileAttributes.permissions {
            fileAttributes.permissions = permissions | 0o200
        }
        for child in (fileWrappers ?? [:]).values { child.makeWritable() }
    }
}

extension URL {
    /// With the extension of that name if something is here that has another one.
    fileprivate func named(as name: String) -> URL {
        let wanted = (name as NSString).pathExtension
        guard FilePath(self).kind != nil, pathExtension.lowercased() != wanted.lowercased() else {
            return self
        }
        let stem = deletingPathExtension()
        return wanted.isEmpty ? stem : stem.appendingPathExtension(wanted)
    }
}
