import Control
import Foundation
import Glibc
import Model

extension FileWrapper {
    /// Reads the item at a URL. A symbolic link is read as a link.
    ///
    /// - Throws: `CocoaError` for errors of the file system; `.fileReadUnsupportedScheme` for an
    ///   item that is neither a file, a directory nor a link; `.fileReadInvalidFileName` for a name
    ///   that is not UTF-8.
    public convenience init(url: URL, options: ReadingOptions = []) throws {
        let path = FilePath(url)
        let (kind, state) = try FileWrapper.read(path, options)
        self.init(kind, state)
    }

    private convenience init(_ path: FilePath, _ options: ReadingOptions) throws {
        let (kind, state) = try FileWrapper.read(path, options)
        self.init(kind, state)
    }

    private static func read(_ path: FilePath, _ options: ReadingOptions) throws -> (Kind, State) {
        guard let status = try? path.status(), let stamp = FileStamp(shallow: path, status) else {
            throw path.failure(.fileReadUnknown)
        }
        guard let name = String(validating: path.name.bytes, as: UTF8.self) else {
            throw CocoaError(
                .fileReadInvalidFileName, userInfo: [NSFilePathErrorKey: path.description])
        }
        var state = State()
        (state.filename, state.preferredFilename) = (name, name)
        state.attributes = Attributes(
            permissions: UInt16(status.st_mode & 0o7777), modificationDate: Date(status.st_mtim))
        state.origin = Origin(path: path, stamp: stamp, modified: status.st_mtim)
        let isImmediate = options.contains(.immediate)
        switch FileKind(status) {
        case .file:
            if isImmediate { state.data = try path.readAll() }
            return (.regular, state)
        case .directory:
            if isImmediate { state.children = try children(of: path, options) }
            return (.directory, state)
        case .symlink:
            state.target = path.linkTarget
            return (.link, state)
        case .other:
            throw CocoaError(
                .fileReadUnsupportedScheme, userInfo: [NSFilePathErrorKey: path.description])
        }
    }

    static func children(of path: FilePath, _ options: ReadingOptions) throws
        -> [String: FileWrapper]
    {
        var children: [String: FileWrapper] = [:]
        for name in try path.children() {
            let child = try FileWrapper(path.appending(name), options)
            if let key = child.filename { children[key] = child }
        }
        return children
    }

    /// Whether the item at a URL is the same as this one, as far as can be seen without reading:
    /// names, kinds, sizes, modification times and permissions. Contents that were never on a disk
    /// are compared byte by byte.
    public func matchesContents(of url: URL) -> Bool { matches(FilePath(url)) }

    private func matches(_ path: FilePath) -> Bool {
        guard let status = try? path.status() else { return false }
        let state = state.withLock { $0 }
        if kind != .link, let permissions = state.attributes.permissions,
            permissions != UInt16(status.st_mode & 0o7777)
        {
            return false
        }
        switch (kind, FileKind(status)) {
        case (.link, .symlink): return path.linkTarget == state.target
        case (.regular, .file):
            if let origin = state.origin { return FileStamp(path) == origin.stamp }
            return (try? path.readAll()) == state.data
        case (.directory, .directory):
            guard let children = fileWrappers, let names = try? path.children(),
                Set(names) == Set(children.keys.map { Name($0) })
            else { return false }
            return children.allSatisfy { $1.matches(path.appending($0)) }
        default: return false
        }
    }
}
