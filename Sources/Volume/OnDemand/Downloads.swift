import Journal
import Model
import SystemCalls

/// The progress of a download or an eviction.
package struct ContentsProgress: Hashable, Sendable {
    package var items = 0
    package var itemsTotal = 0
    package var bytes: Int64 = 0
    package var bytesTotal: Int64 = 0

    package init() {}
}

/// A document that is being downloaded because a caller waits for it.
package struct ActiveDownload: Sendable {
    /// The path from the root.
    package var path: [Name]
    package var bytes: UInt64
    package var bytesTotal: UInt64
}

/// Downloads documents whose contents are only at the hub, on request or because they are pinned.
package struct Downloads: Sendable {
    let items: ItemLookup
    let hydration: Hydration
    let room: Room
    let pinned: PinnedDownloads
    private var journal: Journal { items.journal }

    /// Sets the source of bytes that are not on this device. With nil, callers that need such bytes
    /// fail at once.
    package func setRemote(_ remote: (any RemoteContents)?) {
        hydration.setRemote(remote)
        guard remote != nil else { return }
        items.recorder.placeholders.askAgain()
        pinned.poke()
    }

    /// Whether bytes of the document at a path are not on this device.
    package func isDataless(at path: [Name]) throws(VolumeError) -> Bool {
        let file = try items.found(path)
        return PlaceholderMark(of: file.raw, size: FileSnapshot(of: file.raw).size) != nil
    }

    /// The documents whose bytes callers wait for, with their progress.
    package func active() throws(VolumeError) -> [ActiveDownload] {
        let files = hydration.waitedFor
        if files.isEmpty { return [] }
        return try journal.read { reader in
            try files.compactMap { file in
                guard let item = try reader.item(id: file.mark.item), item.deleted == nil,
                    let path = try reader.path(of: item.key)
                else { return nil }
                return ActiveDownload(
                    path: path, bytes: UInt64(file.bytesHere), bytesTotal: UInt64(file.size))
            }
        }
    }

    // MARK: Pins

    /// Pins a document, or everything below a directory, to this device. This does not download
    /// anything; `hydrate` does.
    package func pin(at path: [Name]) throws(VolumeError) {
        try items.catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in try t.setPin(try items.known(path, t).key, to: true) }
    }

    /// Unpins an item. Below a pinned directory it becomes an exception.
    package func unpin(at path: [Name]) throws(VolumeError) {
        try items.catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in
            let item = try items.known(path, t)
            try t.setPin(item.key, to: nil)
            if try t.isPinned(item.key) { try t.setPin(item.key, to: false) }
        }
        pinned.poke()
    }

    package func isPinned(at path: [Name]) throws(VolumeError) -> Bool {
        try journal.read { try $0.isPinned(try items.known(path, $0).key) }
    }

    // MARK: Download

    /// Downloads a document, or everything below a directory, and returns when all bytes are on the
    /// disk. `progress` is called now and then on the caller's thread; returning false ends the
    /// download.
    ///
    /// - Throws: `.offline`, `.timeout`, `.damaged`, `.full` of the first document that cannot be
    ///   downloaded, or would take space that is kept free for programs; `.cancelled`; `.notFound`.
    package func hydrate(
        at path: [Name], progress: @escaping (ContentsProgress) -> Bool = { _ in true },
        isMeant: @escaping ([Name]) -> Bool = { _ in true }
    ) throws(VolumeError) {
        try run(try absent(below: path).filter { isMeant($0.path) }, progress)
    }

    /// The placeholders at or below a path, with their sizes.
    private func absent(below path: [Name]) throws(VolumeError) -> [(path: [Name], size: Int64)] {
        try items.catchUp(with: path, timeoutSeconds: 5)
        let item = try journal.read { try items.known(path, $0) }
        guard item.kind == .directory else {
            let file = try items.found(path)
            let size = FileSnapshot(of: file.raw).size
            return PlaceholderMark(of: file.raw, size: size) == nil ? [] : [(path, size)]
        }
        return try absentDocuments { (_, names, _) in names.starts(with: path) }
    }

    /// The placeholders that `isMeant` selects by key and path, with their sizes.
    func absentDocuments(_ isMeant: @escaping (Int64, [Name], Reader) throws -> Bool)
        throws(VolumeError) -> [(path: [Name], size: Int64)]
    {
        try journal.read { reader in
            var found: [(path: [Name], size: Int64)] = []
            var cursor: Int64 = 0
            while true {
                let page = try reader.absentItems(after: cursor, limit: 512)
                guard let last = page.last else { return found }
                cursor = last
                for key in page {
                    guard let item = try reader.item(key), item.deleted == nil,
                        let names = try reader.path(of: key), try isMeant(key, names, reader)
                    else { continue }
                    found.append((names, Int64(clamping: item.size)))
                }
            }
        }
    }

    func run(_ files: [(path: [Name], size: Int64)], _ progress: (ContentsProgress) -> Bool)
        throws(VolumeError)
    {
        let batch = DownloadBatch(files, items: items, hydration: hydration, room: room)
        try batch.run(progress)
    }

    // MARK: Pinned documents

    /// Starts downloading pinned documents; what cannot be downloaded now is tried again later.
    package func resume() { pinned.poke() }

    func hasPins() throws(VolumeError) -> Bool {
        try journal.read { try $0.pins().contains { $0.isPinned } }
    }

    /// The pinned documents and the settings files that are not on this device.
    func absentPinned() throws(VolumeError) -> [(path: [Name], size: Int64)] {
        if try hasPins() {
            return try absentDocuments { (key, _, reader) in try reader.isPinned(key) }
        }
        return try journal.read { reader in
            try SettingsFile.allCases.compactMap { file in
                guard let item = try reader.item(parent: Item.root, name: file.name),
                    try reader.absentVersion(of: item.key) != nil
                else { return nil }
                return ([file.name], Int64(clamping: item.size))
            }
        }
    }
}
