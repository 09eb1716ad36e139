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
    /// Whether there are entries, so that an open or a close usually takes no lock. It changes
    /// under the lock of `entries`.
    private let isAny = Atomic(false)
    /// More than these are not noted.
    private static let limit = 1024

    init(_ tree: Tree) { self.tree = tree }

    /// To be called when a thread opens an owner file that is answered.
    func opened(_ file: OwnerFile, by thread: Int32) {
        guard let process = ProcessAncestry.process(of: thread) else { return }
        let entry = Entry(directory: file.directory, name: file.name, process: process)
        entries.withLock { entries in
            if entries.count < OwnerFileReaders.limit { entries.insert(entry) }
            isAny.store(true, ordering: .relaxed)
        }
        tree.volume.openDocuments.poke()
    }

    /// To be called when a file was opened for writing or closed. The volume tells only of the
    /// first handle of a file and the last, and the program of one between may be an editor.
    func handlesChanged() {
        if isAny.load(ordering: .relaxed) { tree.volume.openDocuments.poke() }
    }

    private func remove(_ entry: Entry) {
        entries.withLock { entries in
            entries.remove(entry)
            isAny.store(!entries.isEmpty, ordering: .relaxed)
        }
    }

    /// To be called when a thread has made an owner file: its program edits the document after all.
    func made(_ name: Name, in directory: Node, by thread: Int32) {
        guard isAny.load(ordering: .relaxed),
            let process = ProcessAncestry.process(of: thread)
        else { return }
        let entry = Entry(directory: directory.id, name: name, process: process)
        remove(entry)
    }

    /// The processes that read an owner file of one of these documents, which are open. What was
    /// read of other documents is forgotten.
    func processes(reading open: Set<[Name]>) -> [[Name]: Set<Int32>] {
        var found: [[Name]: Set<Int32>] = [:]
        for entry in entries.withLock({ $0 }) {
            let documents = documents(of: entry).filter(open.contains)
            for document in documents { found[document, default: []].insert(entry.process) }
            if documents.isEmpty { remove(entry) }
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
