import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Finds items by their paths in the journal and in the tree. Before that it waits until the
/// recorder has processed what programs did.
package struct ItemLookup: Sendable {
    let tree: Int32
    let journal: Journal
    let recorder: Recorder
    let ignoreFile: IgnoreFile

    /// The present path of an item from the root. Waits until the recorder has processed all events
    /// before the call.
    ///
    /// - Throws: `.notFound` if there is no such item or it was deleted; `.timeout`.
    package func path(of id: Identifier) throws(VolumeError) -> [Name] {
        try catchUp(with: nil, timeoutSeconds: 5)
        let path = try journal.read { reader -> [Name]? in
            guard let item = try reader.item(id: id), item.deleted == nil else { return nil }
            return try reader.path(of: item.key)
        }
        if let path { return path }
        throw VolumeError(
            .notFound,
            "There is no item with the id \(id) in this volume. It was deleted, or it belongs to "
                + "another volume.")
    }

    // MARK: Waiting for the recorder

    /// Waits for the recorder. For a path that the tree has and the journal does not, waits until
    /// the time is over, because a scan may be running or recording may have stopped for want of
    /// space.
    func catchUp(with path: [Name]?, timeoutSeconds: Double) throws(VolumeError) {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        var left = timeoutSeconds
        var pause: UInt32 = 1_000
        while true {
            try catchUp(withFocus: path.map { .path($0) }, timeoutSeconds: left)
            guard let path, try lacksItem(path) else { return }
            left = Double(deadline - cl_clock_monotonic_ns()) / 1e9
            guard left > 0 else { throw ItemLookup.busy }
            usleep(pause)
            pause = min(pause * 2, 50_000)
        }
    }

    func catchUp(withFocus focus: RecorderFocus?, timeoutSeconds: Double) throws(VolumeError) {
        guard recorder.catchUp(with: focus, timeoutSeconds: timeoutSeconds) else {
            throw recorder.isAboutToClose ? ItemLookup.ending : ItemLookup.busy
        }
    }

    /// Whether the path exists and should have an item, but has none yet.
    func lacksItem(_ path: [Name]) throws(VolumeError) -> Bool {
        guard !path.isEmpty, try journal.read({ try self.item(at: path, $0) }) == nil,
            let snapshot = snapshot(at: path)
        else { return false }
        return !ignoreFile.isLocal(path, isDirectory: snapshot.isDirectory)
    }

    static var ending: VolumeError { VolumeError(.busy, "The volume is being unmounted.") }

    private static var busy: VolumeError {
        VolumeError(
            .timeout,
            "The recorder is still busy with earlier changes; ask again in a moment, "
                + "or see `fsctl status`.")
    }

    // MARK: In the journal

    /// The item at a path. For a path into a package this is the package.
    func item(at path: [Name], includesDeleted: Bool = false, _ reader: Reader) throws -> Item? {
        var item = try reader.item(Item.root)
        for (index, name) in path.enumerated() {
            guard let parent = item else { return nil }
            if parent.kind == .package { return parent }
            item = try reader.item(parent: parent.key, name: name)
            if item == nil, includesDeleted {
                let last = try reader.deletedItem(parent: parent.key, name: name)
                if index == path.count - 1 || last?.kind == .directory { item = last }
            }
        }
        return item
    }

    func existing(_ path: [Name], _ reader: Reader) throws -> Item {
        guard let item = try item(at: path, reader) else {
            let shown = path.shown
            throw VolumeError(
                .notFound,
                "\(shown) is not a document of this volume: it does not exist, or is a temporary "
                    + "or ignored file.")
        }
        return item
    }

    func known(_ path: [Name], _ reader: Reader) throws -> Item {
        guard let item = try item(at: path, reader) else {
            throw VolumeError(
                .notFound,
                "\(path.shown) is not a document of this volume.")
        }
        return item
    }

    // MARK: In the tree

    package func inode(at path: [Name]) -> UInt64? { snapshot(at: path)?.inode }

    /// The attributes of the item at a path; nil if there is none.
    package func snapshot(at path: [Name]) -> FileSnapshot? {
        guard let file = try? openBeneath(path, from: tree, flags: O_PATH),
            let status = try? file.status()
        else { return nil }
        return FileSnapshot(status)
    }

    /// Opens the item at a path with O_PATH.
    func found(_ path: [Name]) throws(VolumeError) -> Descriptor {
        do throws(Errno) {
            return try openBeneath(path, from: tree, flags: O_PATH)
        } catch {
            throw VolumeError(
                error.isMissing ? .notFound : .system,
                "\(path.shown) cannot be opened: \(error).")
        }
    }

    /// The protection of a document, and the former ones of the directories above it.
    func protection(of item: Item, _ reader: Reader) throws -> DocumentProtection {
        DocumentProtection(
            now: try presentProtection(of: item, reader),
            directories: try reader.protections(ofDirectory: item.parent))
    }

    /// For a deleted document it is that of its directory, for the directory's owner alone.
    private func presentProtection(of item: Item, _ reader: Reader) throws -> Protection {
        guard item.parent != 0, let directory = try reader.path(of: item.parent),
            let above = try? openBeneath(directory, from: tree, flags: O_PATH | O_DIRECTORY)
        else { return .unknown }
        if item.deleted == nil,
            let file = try? openBeneath([item.name], from: above.raw, flags: O_PATH),
            let status = try? file.status(), UInt64(status.st_ino) == item.inode
        {
            return Protection(of: file.raw)
        }
        guard let status = try? above.status() else { return .unknown }
        return Protection(status).ownerOnly
    }
}

extension [Name] {
    /// The path as people write it.
    package var shown: String { map(\.text).joined(separator: "/") }
}
