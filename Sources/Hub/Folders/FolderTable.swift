import HubProtocol
import Model
import Reconcile

/// A directory of a volume that some members see as a volume of its own.
package struct SharedFolder: Hashable, Sendable {
    /// What the devices of these members take for the id of the volume. Requests with it reach the
    /// folder only, and those with the id of the volume are those of members of the whole volume.
    package let id: Identifier
    package let volume: Identifier
    package let directory: Identifier
}

/// What an account sees of a volume: all of it, or a folder.
package struct VolumeView: Hashable, Sendable {
    package let volume: VolumeRow
    package let role: Role
    /// Nil for a member of the whole volume.
    package let folder: SharedFolder?

    /// What the account's devices take for the id of the volume.
    package var id: Identifier { folder?.id ?? volume.id }
}

extension LedgerTransaction {
    var folders: FolderTable { FolderTable(transaction: self) }
}

extension VolumeView {
    func visibleItems(_ transaction: any LedgerTransaction) -> VisibleItems {
        VisibleItems(scope: folder.map { FolderScope(transaction, $0) })
    }
}

/// The items of a volume that an account sees, within one transaction. A transaction asks one such
/// value about all items, because it looks up each directory only once.
struct VisibleItems {
    /// Nil for a member of the whole volume.
    fileprivate var scope: FolderScope?

    mutating func contains(_ item: Identifier) throws -> Bool {
        try scope?.contains(item) ?? true
    }

    /// Whether a version is one of an item that the account sees.
    mutating func contains(version: Identifier) throws -> Bool {
        try scope?.contains(version: version) ?? true
    }
}

extension String {
    /// The text without control characters, which names of files may have.
    var displayable: String {
        String(
            UnicodeScalarView(
                unicodeScalars.map {
                    $0.value < 32 || (127..<160).contains($0.value) ? "?" : $0
                }))
    }
}

/// The folders that are or were shared with members. A row stays after the last such member was
/// removed, so that a member who comes back is told of everything that has left the folder.
struct FolderTable {
    let transaction: any LedgerTransaction

    private func folder(_ row: LedgerRow) throws -> SharedFolder {
        SharedFolder(id: try row.id(0), volume: try row.id(1), directory: try row.id(2))
    }

    func folder(_ id: Identifier) throws -> SharedFolder? {
        try transaction.row(
            "SELECT id, volume, directory FROM folders WHERE id = $1", [.id(id)]
        ).map(folder)
    }

    func folders(in volume: Identifier) throws -> [SharedFolder] {
        try transaction.rows(
            "SELECT id, volume, directory FROM folders WHERE volume = $1", [.id(volume)]
        ).map(folder)
    }

    /// The directory; nil if it is in the trash. Then its members are as if they were removed.
    func directory(of folder: SharedFolder) throws -> ItemState? {
        guard let item = try transaction.item(folder.directory, in: folder.volume),
            item.kind == .directory, item.life.isAlive
        else { return nil }
        return item
    }

    func isShown(_ folder: SharedFolder) throws -> Bool {
        let found = try transaction.row(
            "SELECT alive FROM items WHERE volume = $1 AND id = $2",
            [.id(folder.volume), .id(folder.directory)])
        return try found?.integer(0) == 1
    }

    /// Begins to share a directory. It reads one row and writes one, whatever is in the directory.
    ///
    /// - Throws: `.malformed` if there is no such directory.
    func share(_ directory: Identifier, in volume: Identifier) throws -> SharedFolder {
        let known = try transaction.row(
            "SELECT id, volume, directory FROM folders WHERE volume = $1 AND directory = $2",
            [.id(volume), .id(directory)])
        let folder =
            try known.map(folder)
            ?? SharedFolder(id: .random(), volume: volume, directory: directory)
        guard directory != .root, try self.directory(of: folder) != nil else {
            throw Failure(
                .malformed,
                "There is no such folder in this volume: only a directory that the hub has can be "
                    + "shared.")
        }
        if known == nil {
            try transaction.execute(
                "INSERT INTO folders (id, volume, directory) VALUES ($1, $2, $3)",
                [.id(folder.id), .id(volume), .id(directory)])
        }
        return folder
    }

    // MARK: Paths

    func parent(of item: Identifier, in volume: Identifier) throws -> Identifier? {
        try transaction.row(
            "SELECT parent FROM items WHERE volume = $1 AND id = $2", [.id(volume), .id(item)])?
            .id(0)
    }

    /// A directory and those above it, up to the root.
    func chain(from directory: Identifier, in volume: Identifier) throws -> [Identifier] {
        var (chain, next) = ([Identifier](), directory)
        while next != .root, chain.count < FolderScope.depth {
            chain.append(next)
            guard let parent = try parent(of: next, in: volume) else { break }
            next = parent
        }
        return chain
    }

    /// The path of a directory within the volume, or within a folder; nil if it is not there.
    func path(of directory: Identifier, in volume: Identifier, below top: Identifier) throws
        -> String?
    {
        var (names, next) = ([String](), directory)
        while next != top {
            guard next != .root, names.count < FolderScope.depth,
                let item = try transaction.item(next, in: volume)
            else { return nil }
            names.append(item.name)
            next = item.placement.parent
        }
        var path = names.reversed().joined(separator: "/").displayable
        while path.utf8.count > HubLimits.folderPathBytes { path.removeLast() }
        return path
    }

    /// The directory at a path of a volume; nil if there is none.
    func directory(at path: String, in volume: VolumeRow) throws -> Identifier? {
        let keys = VolumeNames(volume: volume)
        var directory = Identifier.root
        for name in path.split(separator: "/") {
            guard
                let next = try transaction.holder(
                    of: keys.key(String(name)), in: directory, volume: volume.id)
            else { return nil }
            directory = next
        }
        return directory == .root ? nil : directory
    }
}
