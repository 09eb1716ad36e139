import Control
import Foundation
import Glibc
import Model
import Synchronization

/// A file, a directory with all it contains, or a symbolic link, in memory: what a package document
/// is read as and written from.
///
/// The contents of a file never change: put another wrapper in its place. So a wrapper that was
/// read from a disk is known to be what is there still, and is not written again
/// (``write(to:options:originalContentsURL:)``). A directory's children come and go; a snapshot for
/// saving is a new directory with the same children:
///
///     FileWrapper(directoryWithFileWrappers: package.fileWrappers ?? [:])
///
/// It may be used on any thread. As Foundation's on Apple's platforms; Foundation on Linux has
/// none. There is no mapping of files into memory and no serialized form.
public final class FileWrapper: Sendable {
    /// How contents are read. The number is Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// All is read now. Without it each file is read when it is asked for: maybe when the turn
        /// in which it could be read safely is over.
        public static let immediate = ReadingOptions(rawValue: 1)
    }

    /// How contents are written. The numbers are Apple's.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// All is written beside, and then takes the place of what is there in one step.
        public static let atomic = WritingOptions(rawValue: 1)
        /// ``filename``, of the children too, and where files that were not read yet are read
        /// from, become what was written.
        public static let withNameUpdating = WritingOptions(rawValue: 2)
    }

    /// What a file or directory has beside its contents.
    public struct Attributes: Hashable, Sendable {
        /// The permission bits, such as `0o644`; nil for what the process gives to new files.
        public var permissions: UInt16?
        /// Of a file; nil for one that was never on a disk.
        public var modificationDate: Date?
        /// Attributes.
        public init(permissions: UInt16? = nil, modificationDate: Date? = nil) {
            self.permissions = permissions
            self.modificationDate = modificationDate
        }
    }

    enum Kind: Sendable { case regular, directory, link }

    /// Where it is on a disk, and by what one sees that it is still that.
    struct Origin: Sendable {
        var path: FilePath
        let stamp: FileStamp
        let modified: timespec
    }

    struct State: Sendable {
        /// Of a regular file; nil when it was not read yet.
        var data: Data?
        /// Of a directory, by key; nil when it was not read yet.
        var children: [String: FileWrapper]?
        var target: FilePath?
        var filename: String?
        var preferredFilename: String?
        var attributes = Attributes()
        var origin: Origin?
    }

    let kind: Kind
    let state: Mutex<State>

    init(_ kind: Kind, _ state: sending State) {
        self.kind = kind
        self.state = Mutex(state)
    }

    /// A file.
    public convenience init(regularFileWithContents contents: Data) {
        self.init(.regular, State(data: contents))
    }

    /// A directory. Children get the keys as their names, and as preferred names if they have
    /// none.
    public convenience init(directoryWithFileWrappers children: [String: FileWrapper]) {
        for (key, child) in children {
            child.state.withLock { state in
                state.filename = key
                if state.preferredFilename == nil { state.preferredFilename = key }
            }
        }
        self.init(.directory, State(children: children))
    }

    /// A symbolic link. The URL may be a relative one.
    public convenience init(symbolicLinkWithDestinationURL url: URL) {
        let target = url.relativePath.isEmpty ? FilePath(url) : FilePath(url.relativePath)
        self.init(.link, State(target: target))
    }

    // MARK: What it is

    /// Whether it is a file.
    public var isRegularFile: Bool { kind == .regular }
    /// Whether it is a directory.
    public var isDirectory: Bool { kind == .directory }
    /// Whether it is a symbolic link.
    public var isSymbolicLink: Bool { kind == .link }

    /// The name that it has, or had, on a disk; in a directory wrapper its key there.
    public var filename: String? {
        get { state.withLock { $0.filename } }
        set { state.withLock { $0.filename = newValue } }
    }

    /// The name that it is to have in the directory that it is added to, if that is free.
    public var preferredFilename: String? {
        get { state.withLock { $0.preferredFilename } }
        set { state.withLock { $0.preferredFilename = newValue } }
    }

    /// Permissions and time: as read, and as they will be written.
    public var fileAttributes: Attributes {
        get { state.withLock { $0.attributes } }
        set { state.withLock { $0.attributes = newValue } }
    }

    /// The contents of a file; nil of anything else, and when a file that was not read before is
    /// not there any more, or not what it was.
    public var regularFileContents: Data? {
        guard kind == .regular else { return nil }
        let (data, origin) = state.withLock { ($0.data, $0.origin) }
        if let data { return data }
        guard let origin, let read = try? origin.path.readAll(),
            FileStamp(origin.path) == origin.stamp
        else { return nil }
        state.withLock { $0.data = read }
        return read
    }

    /// The children of a directory by their keys; nil of anything else, and when a directory that
    /// was not read before cannot be read.
    public var fileWrappers: [String: FileWrapper]? {
        guard kind == .directory else { return nil }
        return try? state.withLock { state in
            if let children = state.children { return children }
            guard let origin = state.origin else { return [:] }
            let children = try FileWrapper.children(of: origin.path, [])
            state.children = children
            return children
        }
    }

    /// Where a symbolic link leads; nil of anything else.
    public var symbolicLinkDestinationURL: URL? {
        state.withLock { $0.target }.map { target in
            target.isAbsolute
                ? URL(target)
                : URL(string: URL(FilePath("/").appending(target.name)).absoluteString)!
        }
    }

    // MARK: Of a directory

    /// Adds a child by its preferred name, which it must have, and returns its key: the preferred
    /// name, or, when a child has that, one made of it (`1__#$!@%!#__name`, as Apple's).
    ///
    /// The wrapper must be a directory: anything else is a mistake that ends the program.
    @discardableResult
    public func addFileWrapper(_ child: FileWrapper) -> String {
        guard let preferred = child.preferredFilename, !preferred.isEmpty else {
            preconditionFailure("a file wrapper needs a preferred filename to be added")
        }
        return edit { children in
            var key = preferred
            var number = 0
            while children[key] != nil {
                number += 1
                key = "\(number)__#$!@%!#__\(preferred)"
            }
            children[key] = child
            child.filename = key
            return key
        }
    }

    /// Adds a new file, as ``addFileWrapper(_:)`` does, and returns its key.
    @discardableResult
    public func addRegularFile(withContents data: Data, preferredFilename: String) -> String {
        let child = FileWrapper(regularFileWithContents: data)
        child.preferredFilename = preferredFilename
        return addFileWrapper(child)
    }

    /// Removes a child; nothing happens when it is none.
    public func removeFileWrapper(_ child: FileWrapper) {
        edit { children in
            for key in children.filter({ $0.value === child }).keys { children[key] = nil }
        }
    }

    /// By which name a child is known; nil when it is none.
    public func keyForChildFileWrapper(_ child: FileWrapper) -> String? {
        fileWrappers?.first { $0.value === child }?.key
    }

    private func edit<Value>(_ body: (inout [String: FileWrapper]) -> Value) -> Value {
        precondition(isDirectory, "only a directory's file wrapper has children")
        var children = fileWrappers ?? [:]
        let value = body(&children)
        state.withLock { $0.children = children }
        return value
    }
}
