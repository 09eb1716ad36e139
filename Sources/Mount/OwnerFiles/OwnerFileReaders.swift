import Glibc
import Model
import Synchronization

/// The programs that an owner file has told that another device edits a document.
///
/// LibreOffice opens a document for writing before it looks for the owner file, and keeps it open
/// while it only shows it. So what such a program has open does not say that it edits the document.
/// An owner file that it makes says so (`MadeOwnerFiles`).
final class OwnerFileReaders: Sendable {
    private struct Entry: Hashable {
        /// The node number of the directory.
        var directory: UInt64
        /// Of the owner file.
        var name: Name
        var process: Int32
    }

    private let tree: Tree
    private let entries = Mutex<Set<Entry>>([])
    /// More than these are not noted.
    private static let limit = 1024

    init(_ tree: Tree) { self.tree = tree }

    /// To be called when a thread opens an owner file that is answered.
    func opened(_ file: OwnerFile, by thread: Int32) {
        guard let process = ProcessAncestry.process(of: thread) else { return }
        let entry = Entry(directory: file.directory, name: file.name, process: process)
        entries.withLock { entries in
            if entries.count < OwnerFileReaders.limit { entries.insert(entry) }
        }
        tree.volume.openDocuments.poke()
    }

    /// To be called when a thread has made an owner file: its program edits the document after all.
    func made(_ name: Name, in directory: Node, by thread: Int32) {
        guard entries.withLock({ !$0.isEmpty }),
            let process = ProcessAncestry.process(of: thread)
        else { return }
        let entry = Entry(directory: directory.id, name: name, process: process)
        entries.withLock { _ = $0.remove(entry) }
    }

    /// The processes that read an owner file of one of these documents, which are open. What was
    /// read of other documents is forgotten.
    func processes(reading open: Set<[Name]>) -> [[Name]: Set<Int32>] {
        var found: [[Name]: Set<Int32>] = [:]
        for entry in entries.withLock({ $0 }) {
            let documents = documents(of: entry).filter(open.contains)
            for document in documents { found[document, default: []].insert(entry.process) }
            if documents.isEmpty { entries.withLock { _ = $0.remove(entry) } }
        }
        return found
    }

    /// One name can stand for several documents, which need not exist.
    private func documents(of entry: Entry) -> [[Name]] {
        guard let node = tree.nodes[entry.directory], let directory = tree.nodes.path(of: node),
            let name = OwnerFileName(entry.name)
        else { return [] }
        return name.documents.map { directory + [$0] }
    }
}
