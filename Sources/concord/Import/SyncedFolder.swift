import Control
import Glibc
import Model
import SystemCalls

/// A folder that Dropbox, Nextcloud, ownCloud or Syncthing keeps equal on several machines. It is
/// only read.
struct SyncedFolder {
    let root: FilePath

    /// Where Syncthing keeps old versions, by the paths of the documents.
    private static let versions = Name(".stversions")

    /// A file, and what was found of its other contents.
    struct Document {
        let name: Name
        /// Nil if only old versions are there, because the document was deleted.
        var current: FilePath?
        var conflicts: [FilePath] = []
        var versions: [FilePath] = []
    }

    /// What is in one directory of the folder.
    struct Listing {
        var documents: [Document] = []
        var links: [Name] = []
        /// Also those of which only old versions are left.
        var directories: [Name] = []
        /// Sockets, pipes and devices.
        var others: [Name] = []
    }

    func path(_ directory: [Name]) -> FilePath { root.appending(directory) }

    /// Whether the directory exists, and not only old versions of what was in it.
    func exists(_ directory: [Name]) -> Bool { path(directory).kind == .directory }

    /// - Throws: `.denied` or `.system` if a directory cannot be read.
    func list(_ directory: [Name]) throws(VolumeError) -> Listing {
        var (files, listing) = ([Name: Document](), Listing())
        let here = path(directory)
        let entries = exists(directory) ? try Self.entries(of: here) : []
        var directories: Set<Name> = []
        for name in entries where !SyncedName(name).isOfProgram {
            let path = here.appending(name)
            switch path.kind {
            case .file: files[name] = Document(name: name, current: path)
            case .directory: directories.insert(name)
            case .symlink: listing.links.append(name)
            case .other: listing.others.append(name)
            // It was removed just now.
            case nil: break
            }
        }
        for name in files.keys.sorted() {
            guard let document = original(of: name, files) else { continue }
            files[document]?.conflicts.append(here.appending(name))
            files[name] = nil
        }
        let old = root.appending(Self.versions).appending(directory)
        for name in old.kind == .directory ? try Self.entries(of: old) : [] {
            let path = old.appending(name)
            switch path.kind {
            case .file:
                let document = SyncedName(name).versioned
                files[document, default: Document(name: document)].versions.append(path)
            case .directory: directories.insert(name)
            default: break
            }
        }
        listing.documents = files.values.sorted { $0.name < $1.name }
        listing.directories = directories.sorted()
        return listing
    }

    /// The document that a file is the other side of a conflict of. The two sides of a conflict may
    /// have come into conflict again.
    private func original(of name: Name, _ files: [Name: Document]) -> Name? {
        var (next, found) = (name, Name?.none)
        while let document = SyncedName(next).conflicting {
            if files[document]?.current != nil { found = document }
            next = document
        }
        return found
    }

    private static func entries(of directory: FilePath) throws(VolumeError) -> [Name] {
        if let names = names(in: directory) { return names.sorted() }
        let error = Errno(errno)
        throw VolumeError(
            error == .denied ? .denied : .system, "\(directory) cannot be read: \(error)")
    }
}
