import HubProtocol
import Model
import Reconcile

/// Decides what is in a shared folder: what is below its directory now. An item in the trash is
/// where it was last. It caches places, so it must not be used after the transaction, and must
/// forget them when a directory was moved.
struct FolderScope {
    let transaction: any LedgerTransaction
    let folder: SharedFolder
    /// Whether what is in these directories is in the folder.
    private var known: [Identifier: Bool] = [:]
    /// How many rows were read.
    private(set) var reads = 0

    /// How many parent directories of an item are looked up at most until the folder is found.
    static let depth = 4096

    init(_ transaction: any LedgerTransaction, _ folder: SharedFolder) {
        self.transaction = transaction
        self.folder = folder
    }

    mutating func forgetPlaces() { known = [:] }

    /// The directory itself is not in the folder: it is the root of what its members see.
    mutating func contains(_ item: Identifier) throws -> Bool {
        guard item != folder.directory, item != .root,
            let parent = try parent(of: item)
        else { return false }
        return try holds(parent)
    }

    private mutating func parent(of item: Identifier) throws -> Identifier? {
        reads += 1
        return try transaction.folders.parent(of: item, in: folder.volume)
    }

    mutating func contains(version: Identifier) throws -> Bool {
        reads += 1
        let found = try transaction.row(
            "SELECT item FROM revisions WHERE volume = $1 AND id = $2",
            [.id(folder.volume), .id(version)])
        return try found.map { try contains($0.id(0)) } ?? false
    }

    /// Whether what is in this directory is in the folder.
    mutating func holds(_ directory: Identifier) throws -> Bool {
        var (next, path, isInside) = (directory, [Identifier](), false)
        while path.count < FolderScope.depth {
            if next == folder.directory {
                isInside = true
                break
            }
            if let answer = known[next] {
                isInside = answer
                break
            }
            guard next != .root, let parent = try parent(of: next) else { break }
            path.append(next)
            next = parent
        }
        for directory in path { known[directory] = isInside }
        return isInside
    }

    // MARK: What is in the directory is in the root for the folder's members

    func shown(_ item: ItemState) -> ItemState {
        guard item.placement.parent == folder.directory else { return item }
        var item = item
        item.placement.parent = .root
        return item
    }

    func stored(_ parent: Identifier) -> Identifier {
        parent == .root ? folder.directory : parent
    }
}
