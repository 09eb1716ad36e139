import Control
import Foundation
import Model
import Synchronization

/// Where the contents of a package come from that was read lazily. They stay those of one version:
/// if another program has replaced a file since, what it contained is read from the version, and if
/// the package was moved, its files are found at the new place.
final class PackageSource: Sendable {
    private let original: FilePath
    private let present: Mutex<FilePath>
    /// The name of the version that was read, in the directory of the package's versions. Nil on
    /// other file systems.
    private let version: Name?

    /// The package must not be written meanwhile.
    init(_ package: FilePath) {
        original = package
        present = Mutex(package)
        guard let place = (try? package.place()) ?? nil,
            let client = try? ControlClient(socket: place.socket),
            let history = try? client.ask(
                Request(.versions, path: place.components), as: HistoryReport.self)
        else {
            version = nil
            return
        }
        version = history.versions.first { $0.kind == "current" }.map {
            Name(bytes: $0.fileName.bytes)
        }
    }

    func move(to package: FilePath) { present.withLock { $0 = package } }

    /// The present path of what was at this path.
    func present(_ path: FilePath) -> FilePath {
        path.replacing(original, with: present.withLock { $0 })
    }

    /// The path in the version of what was at this path.
    func kept(_ path: FilePath) -> FilePath? {
        guard let version else { return nil }
        let package = present.withLock { $0 }
        let root = package.parent.appending(".versions").appending(package.name)
        return path.replacing(original, with: root.appending(version))
    }
}

extension DocumentPlace {
    mutating func move(to url: URL) {
        self.url = url
        source?.move(to: FilePath(url))
    }
}

extension FileWrapper {
    /// What a document reads: the `Data` of a file, or the wrapper of a package, and where that is
    /// read from later unless all of it was read at once.
    static func contents(of url: URL, _ options: ReadingOptions) throws
        -> (contents: any Sendable, source: PackageSource?)
    {
        let path = FilePath(url)
        guard path.kind == .directory, !options.contains(.immediate) else {
            let wrapper = try FileWrapper(url: url, options: .immediate)
            return (wrapper.regularFileContents ?? wrapper as any Sendable, nil)
        }
        let wrapper = try FileWrapper(url: url)
        let source = PackageSource(path)
        try wrapper.readNames(source)
        return (wrapper, source)
    }

    /// Reads which items the directory contains, at any depth, without the contents of files. These
    /// are read from the source when they are asked for.
    func readNames(_ source: PackageSource) throws {
        let path = state.withLock { state in
            state.origin?.source = source
            return state.origin?.path
        }
        guard isDirectory, let path else { return }
        let children = try FileWrapper.children(of: path, [])
        for child in children.values { try child.readNames(source) }
        state.withLock { $0.children = children }
    }
}

extension FileWrapper.Origin {
    /// The contents of the file as they were when its stamp was taken; nil if they are gone.
    func read() -> Data? {
        let present = source?.present(path) ?? path
        if let data = try? present.readAll(), FileStamp(present) == stamp { return data }
        guard let data = source?.kept(path).flatMap({ try? $0.readAll() }),
            Int64(data.count) == stamp.size
        else { return nil }
        return data
    }
}
