import Control
import Foundation
import Glibc
import Model

extension FileWrapper {
    /// Writes the contents to a URL, in place of what is there.
    ///
    /// Files that were read from a disk and are unchanged at `originalContentsURL` are not written
    /// again: the new package gets a hard link to the old file, or a copy where the file system has
    /// no links. Without ``WritingOptions/atomic``, an existing directory is brought up to date:
    /// unchanged files are left alone, each other file is replaced in one step, and items that the
    /// wrapper does not have are removed.
    ///
    /// - Throws: `CocoaError`. With `.atomic` nothing has changed then.
    public func write(
        to url: URL, options: WritingOptions = [], originalContentsURL: URL? = nil
    ) throws {
        let path = FilePath(url)
        let original = originalContentsURL.map { FilePath($0) }
        if options.contains(.atomic) {
            try replace(path, original)
        } else {
            try update(path, original)
        }
        if options.contains(.withNameUpdating) { settle(at: path) }
    }

    /// Creates the item. Nothing must be at `path`.
    private func make(at path: FilePath, _ original: FilePath?) throws {
        let state = state.withLock { $0 }
        switch kind {
        case .link:
            let target = state.target ?? FilePath("")
            let result = target.withCString { to in path.withCString { symlink(to, $0) } }
            guard result == 0 else { throw path.failure(.fileWriteUnknown) }
        case .regular:
            if let original, let origin = state.origin, FileStamp(original) == origin.stamp,
                original.link(to: path)
            {
                return
            }
            guard let data = regularFileContents else {
                throw CocoaError(
                    .fileReadUnknown,
                    userInfo: [
                        NSFilePathErrorKey: state.origin?.path.description ?? path.description,
                        NSLocalizedDescriptionKey:
                            "\(state.origin?.path ?? path) was not read before, and has changed "
                            + "since: read packages with .immediate",
                    ])
            }
            try path.create(with: data, permissions: state.attributes.permissions)
            state.setTime(of: path)
        case .directory:
            guard path.withCString({ mkdir($0, 0o777) }) == 0 else {
                throw path.failure(.fileWriteUnknown)
            }
            for (key, child) in try existingChildren(path) {
                try child.make(at: path.appending(key), original?.appending(key))
            }
            // Permissions are set after the children are written, because they may forbid writing.
            if let permissions = state.attributes.permissions {
                _ = path.withCString { chmod($0, mode_t(permissions)) }
            }
        }
    }

    private func existingChildren(_ path: FilePath) throws -> [String: FileWrapper] {
        guard let children = fileWrappers else {
            throw CocoaError(
                .fileReadUnknown,
                userInfo: [
                    NSFilePathErrorKey: path.description,
                    NSLocalizedDescriptionKey:
                        "a directory that was to be written to \(path) was not read before, and "
                        + "cannot be read any more: read packages with .immediate",
                ])
        }
        return children
    }

    /// Creates or updates the item.
    private func update(_ path: FilePath, _ original: FilePath?) throws {
        guard let there = path.kind else { return try make(at: path, original) }
        if kind == .directory, there == .directory {
            let children = try existingChildren(path)
            for (key, child) in children {
                try child.update(path.appending(key), original?.appending(key))
            }
            let names = Set(children.keys.map { Name($0) })
            for name in try path.children() where !names.contains(name) {
                path.appending(name).remove()
            }
            if let permissions = fileAttributes.permissions {
                _ = path.withCString { chmod($0, mode_t(permissions)) }
            }
            return
        }
        if kind != .directory, matchesContents(of: URL(path)) { return }
        try replace(path, original)
    }

    /// Writes a whole draft beside the item and then puts it in place.
    private func replace(_ path: FilePath, _ original: FilePath?) throws {
        let draft = path.draft
        do {
            try make(at: draft, original)
            try draft.install(at: path)
        } catch {
            draft.remove()
            throw error
        }
    }

    /// Makes the item at `path` the origin of this wrapper.
    private func settle(at path: FilePath) {
        guard let status = try? path.status(), let stamp = FileStamp(shallow: path, status) else {
            return
        }
        let children = state.withLock { state in
            state.filename = path.name.text
            state.origin = Origin(path: path, stamp: stamp, modified: status.st_mtim)
            return state.children
        }
        for (key, child) in children ?? [:] { child.settle(at: path.appending(key)) }
    }
}

extension FileWrapper.State {
    /// Gives a file that was read from a disk the modification time that it had there.
    fileprivate func setTime(of path: FilePath) {
        if let origin, attributes.modificationDate == Date(origin.modified) {
            path.setTime(origin.modified)
        } else if let date = attributes.modificationDate {
            path.setTime(timespec(date))
        }
    }
}

extension FilePath {
    /// Makes a hard link; returns false if that is impossible.
    fileprivate func link(to path: FilePath) -> Bool {
        withCString { from in path.withCString { Glibc.link(from, $0) } } == 0
    }

    func set(_ attributes: FileWrapper.Attributes) throws(CocoaError) {
        if let permissions = attributes.permissions,
            withCString({ chmod($0, mode_t(permissions)) }) != 0
        {
            throw failure(.fileWriteUnknown)
        }
        if let date = attributes.modificationDate { setTime(timespec(date)) }
    }

    fileprivate func setTime(_ modified: timespec) {
        // UTIME_OMIT leaves the access time as it is.
        let times = [timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2), modified]
        _ = withCString { utimensat(AT_FDCWD, $0, times, 0) }
    }
}

extension timespec {
    fileprivate init(_ date: Date) {
        let whole = date.timeIntervalSince1970.rounded(.down)
        let rest = date.timeIntervalSince1970 - whole
        self.init(tv_sec: Int(whole), tv_nsec: Int(Timestamp.span(seconds: rest)))
    }
}
