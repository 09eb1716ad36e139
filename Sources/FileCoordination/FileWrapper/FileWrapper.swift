import Control
import Foundation
import Glibc
import Model
import Synchronization

/// A file, a directory with all that it contains, or a symbolic link, in memory. Package documents
/// are read and written as file wrappers.
///
/// The contents of a file wrapper never change; to change them, put another wrapper in its place.
/// So a wrapper that was read from a disk is known to be unchanged, and is not written again
/// (``write(to:options:originalContentsURL:)``). A directory's children can be added and removed. A
/// snapshot for saving is a new directory with the same children:
///
///     FileWrapper(directoryWithFileWrappers: package.fileWrappers ?? [:])
///
/// It may be used on any thread. It is modelled on the class of Apple's Foundation, which
/// Foundation on Linux lacks. It does not map files into memory and has no serialized form.
public final class FileWrapper: Sendable {
    /// How contents are read. The raw value is Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        /// The bits of the set.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Everything is read at once. Without it each file is read when its contents are asked
        /// for, which may be after the coordinated read has ended.
        public static let immediate = ReadingOptions(rawValue: 1)
    }

    /// How contents are written. The raw values are Apple's.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        /// The bits of the set.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Everything is written to a draft beside the item, which then replaces it in one step.
        public static let atomic = WritingOptions(rawValue: 1)
        /// ``filename`` becomes the name that was written, also for children, and files that were
        /// not read yet will be read from there.
        public static let withNameUpdating = WritingOptions(rawValue: 2)
    }

    /// The metadata of a file or directory.
    public struct Attributes: Hashable, Sendable {
        /// The permission bits, such as `0o644`; nil means the process's default for new files.
        public var permissions: UInt16?
        /// The modification time of a file; nil for one that was never on a disk.
        public var modificationDate: Date?
        /// Makes attributes.
        public init(permissions: UInt16? = nil, modificationDate: Date? = nil) {
            self.permissions = permissions
            self.modificationDate = modificationDate
        }
    }

    enum Kind: Sendable { case regular, directory, link }

    /// Where the item was read, and its stamp at that time.
    struct Origin: Sendable {
        var path: FilePath
        let stamp: FileStamp
        let modified: timespec
        /// Set for what was read lazily by a document.
        var source: PackageSource?
    }

    struct State: Sendable {
        /// The contents of a regular file; nil until they are read.
        var data: Data?
        /// The children of a directory, by key; nil until they are read.
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

    /// A file wrapper for a regular file.
    public convenience init(regularFileWithContents contents: Data) {
        self.init(.regular, State(data: contents))
    }

    /// A file wrapper for a directory. The keys become the children's names, and their preferred
    /// names if they have none.
    public convenience init(directoryWithFileWrappers children: [String: FileWrapper]) {
        for (key, child) in children {
            child.state.withLock { state in
                state.filename = key
                if state.preferredFilename == nil { state.preferredFilename = key }
            }
        }
        self.init(.directory, State(children: children))
    }

    /// A file wrapper for a symbolic link. The URL may be relative.
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

    /// The name that the item has or had on a disk; in a directory wrapper, its key.
    public var filename: String? {
        get { state.withLock { $0.filename } }
        set { state.withLock { $0.filename = newValue } }
    }

    /// The name that the item shall get in a directory to which it is added, if that name is free.
    public var preferredFilename: String? {
        get { state.withLock { $0.preferredFilename } }
        set { state.withLock { $0.preferredFilename = newValue } }
    }

    /// Permissions and modification time, as read and as they will be written.
    public var fileAttributes: Attributes {
        get { state.withLock { $0.attributes } }
        set { state.withLock { $0.attributes = newValue } }
    }

    /// The contents of a regular file; nil for other kinds, and when a file that was not read yet
    /// has changed or gone.
    public var regularFileContents: Data? {
        guard kind == .regular else { return nil }
        let (data, origin) = state.withLock { ($0.data, $0.origin) }
        if let data { return data }
        guard let read = origin?.read() else { return nil }
        state.withLock { $0.data = read }
        return read
    }

    /// The children of a directory by their keys; nil for other kinds, and when a directory that
    /// was not read yet cannot be read.
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

    /// The target of a symbolic link; nil for other kinds.
    public var symbolicLinkDestinationURL: URL? {
        state.withLock { $0.target }.map { target in
            target.isAbsolute
                ? URL(target)
                : URL(string: URL(FilePath("/").appending(target.name)).absoluteString)!
        }
    }

    // MARK: Children of a directory

    /// Adds a child by its preferred name, which it must have, and returns its key: the preferred
    /// name or, if another child has that key, a name made from it (`1__#$!@%!#__name`, as
    /// Apple's).
    ///
    /// The wrapper must be a directory; anything else is a programming error and ends the program.
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

    /// Removes a child. If it is not among the children, nothing happens.
    public func removeFileWrapper(_ child: FileWrapper) {
        edit { children in
            for key in children.filter({ $0.value === child }).keys { children[key] = nil }
        }
    }

    /// The key of a child; nil if it is not among the children.
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
