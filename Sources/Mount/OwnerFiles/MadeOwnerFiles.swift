import Glibc
import Model
import Synchronization

/// The owner files that editors have made on this device. Such a file says that its document is
/// being edited as long as it is there and its maker runs, also while the document is not open: Vim
/// and Emacs read a document and close it.
final class MadeOwnerFiles: Sendable {
    private struct Entry: Hashable {
        /// The node number of the directory.
        var directory: UInt64
        var name: Name
    }

    private let tree: Tree
    private let readers: OwnerFileReaders
    /// The thread that made each.
    private let makers = Mutex<[Entry: Int32]>([:])
    /// More than these are not noted.
    private static let limit = 1024

    init(_ tree: Tree, readers: OwnerFileReaders) { (self.tree, self.readers) = (tree, readers) }

    /// To be called when a program has made a name.
    func made(_ name: UnsafePointer<CChar>, in directory: Node, by thread: Int32) {
        guard OwnerFileName.format(of: name) != nil else { return }
        let entry = Entry(directory: directory.id, name: Name(cString: name))
        makers.withLock { makers in
            if makers.count < MadeOwnerFiles.limit { makers[entry] = thread }
        }
        readers.made(entry.name, in: directory, by: thread)
        tree.volume.openDocuments.poke()
    }

    /// To be called when a name has been removed.
    func removed(_ name: UnsafePointer<CChar>) {
        guard OwnerFileName.format(of: name) != nil else { return }
        tree.volume.openDocuments.poke()
    }

    /// The paths of the documents that are edited according to these files, and the threads that
    /// made them. One name can stand for several documents, which need not exist.
    var documents: [(path: [Name], maker: Int32)] {
        let known = makers.withLock { $0 }
        return known.flatMap { entry, thread -> [(path: [Name], maker: Int32)] in
            guard let directory = path(ofDirectoryOf: entry, by: thread),
                let name = OwnerFileName(entry.name)
            else {
                makers.withLock { if $0[entry] == thread { $0[entry] = nil } }
                return []
            }
            return name.documents.map { (directory + [$0], thread) }
        }
    }

    /// Returns nil for a file that does not count any more.
    private func path(ofDirectoryOf entry: Entry, by thread: Int32) -> [Name]? {
        guard access("/proc/\(thread)", F_OK) == 0, let node = tree.nodes[entry.directory],
            let directory = try? tree.directory(node)
        else { return nil }
        let isThere = entry.name.withCString { name in
            var status = stat()
            return fstatat(directory.raw, name, &status, AT_SYMLINK_NOFOLLOW) == 0
        }
        return isThere ? tree.nodes.path(of: node) : nil
    }
}
