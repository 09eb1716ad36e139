import CLinux
import Journal
import Model
import Synchronization

/// A document that is open on another device.
package struct OpenElsewhere: Hashable, Sendable {
    package var document: Identifier
    package var device: Identifier
    package var deviceName: String
    /// The account of the device at the hub.
    package var user: String
    package var use: DocumentUse
    /// Nanoseconds since 1970.
    package var since: Int64

    package init(
        document: Identifier, device: Identifier, deviceName: String, user: String,
        use: DocumentUse, since: Int64
    ) {
        (self.document, self.device, self.deviceName) = (document, device, deviceName)
        (self.user, self.use, self.since) = (user, use, since)
    }
}

/// Which documents are open: here, for the sync engine, which tells the hub; and on other devices,
/// as the engine has heard. Nothing of it is kept on the disk.
package final class OpenDocuments: Sendable {
    /// A document that is open on this device and of which the hub was told.
    package struct Held: Hashable, Sendable {
        package var document: Identifier
        package var use: DocumentUse
        /// Nanoseconds since 1970.
        package var since: Int64

        package init(document: Identifier, use: DocumentUse, since: Int64) {
            (self.document, self.use, self.since) = (document, use, since)
        }
    }

    /// Identifies a lease until it ends.
    private struct LeaseKey: Hashable {
        var document: Identifier
        var device: Identifier

        init(_ open: OpenElsewhere) { (document, device) = (open.document, open.device) }
    }

    private struct State {
        var elsewhere: [OpenElsewhere] = []
        /// `elsewhere` counts until then (nanoseconds since the machine was started).
        var elsewhereEnd = Int64.min
        /// The leases whose owner files were removed here.
        var dismissed: Set<LeaseKey> = []
        var held: [Held] = []
        var heldEnd = Int64.min
    }

    package let guarded = GuardedDocuments()
    let items: ItemLookup
    private let contents: OpenContents
    private let state = Mutex(State())

    /// Returns the paths of these open files, and the paths that explicit claims and presenters
    /// use; set by the daemon.
    package let paths =
        CallbackSlot<@Sendable ([UInt64]) -> [(path: [Name], use: DocumentUse)]>()
    /// Called when something may have been opened or closed here; set by the sync engine.
    package let changed = CallbackSlot<@Sendable () -> Void>()
    /// Called when others have opened or closed documents; set by the daemon.
    package let changedElsewhere =
        CallbackSlot<@Sendable (_ opened: [OpenElsewhere], _ closed: [OpenElsewhere]) -> Void>()

    init(items: ItemLookup, contents: OpenContents) {
        self.items = items
        self.contents = contents
        contents.onChange.set { [changed] in changed.current?() }
        guarded.wantedChanged.set { [changed] in changed.current?() }
    }

    /// To be called when a claim or a presenter comes or goes.
    package func poke() { changed.current?() }

    /// The documents that programs have open now or wait for, at most so many. The next change is
    /// told by `changed`.
    package func look(limit: Int) throws(VolumeError) -> [Identifier: DocumentUse] {
        let found = paths.current?(contents.watch(limit: limit)) ?? []
        let wanted = guarded.wanted.prefix(limit)
        guard !found.isEmpty || !wanted.isEmpty else { return [:] }
        return try items.journal.read { [items] reader in
            var uses: [Identifier: DocumentUse] = [:]
            for document in wanted { uses[document] = .wants }
            for (path, use) in found {
                guard let item = try items.item(at: path, reader),
                    item.kind == .file || item.kind == .package
                else { continue }
                guard uses[item.id] != nil || uses.count < limit else { continue }
                uses[item.id] = uses[item.id]?.combined(with: use) ?? use
            }
            return uses
        }
    }

    // MARK: Other devices

    /// What is open on other devices, as far as the hub has confirmed it lately.
    package var elsewhere: [OpenElsewhere] {
        let now = cl_clock_boottime_ns()
        return state.withLock { now < $0.elsewhereEnd ? $0.elsewhere : [] }
    }

    package func elsewhere(_ document: Identifier) -> [OpenElsewhere] {
        elsewhere.filter { $0.document == document }
    }

    /// What is open here and known to the hub. A device that was stopped for long relies on
    /// nothing.
    package var held: [Held] {
        let now = cl_clock_boottime_ns()
        return state.withLock { now < $0.heldEnd ? $0.held : [] }
    }

    package func setHeld(_ held: [Held], until end: Int64) {
        state.withLock { ($0.held, $0.heldEnd) = (held, end) }
    }

    /// - Parameter end: When it ends unless it is set again (nanoseconds since the machine was
    ///   started).
    package func setElsewhere(_ new: [OpenElsewhere], until end: Int64) {
        let old = state.withLock { state in
            defer { (state.elsewhere, state.elsewhereEnd) = (new, end) }
            if !state.dismissed.isEmpty {
                state.dismissed.formIntersection(new.lazy.map { LeaseKey($0) })
            }
            return state.elsewhere
        }
        let (opened, closed) = (new.without(old), old.without(new))
        if !opened.isEmpty || !closed.isEmpty { changedElsewhere.current?(opened, closed) }
    }

    // MARK: Owner files

    /// Whether `editors` may find any.
    package var isAnyEditedElsewhere: Bool { elsewhere.contains { $0.use == .edits } }

    /// Who has the document at this path open for writing on other devices, in the order in which
    /// they opened it, unless their owner files were removed here. If this device has it open for
    /// writing, too, those who opened it later do not count: LibreOffice makes its owner file anew
    /// with each save, and must not find that of somebody who came after it. It does not wait for
    /// the recorder. A path into a package is no document.
    package func editors(at path: [Name]) throws(VolumeError) -> [OpenElsewhere] {
        let now = cl_clock_boottime_ns()
        let open = state.withLock { state in
            now < state.elsewhereEnd
                ? state.elsewhere.filter {
                    $0.use == .edits && !state.dismissed.contains(LeaseKey($0))
                } : []
        }
        guard !open.isEmpty else { return [] }
        let document = try items.journal.read { [items] reader -> Identifier? in
            guard let item = try items.item(at: path, reader),
                try reader.path(of: item.key) == path
            else { return nil }
            return item.id
        }
        let ours = held.first { $0.document == document && $0.use == .edits }?.since ?? .max
        return open.filter { $0.document == document && $0.since < ours }
            .sorted { $0.since < $1.since }
    }

    /// Hides the owner files of a document until the leases that it has now end.
    package func dismiss(_ document: Identifier) {
        state.withLock { state in
            for open in state.elsewhere where open.document == document {
                state.dismissed.insert(LeaseKey(open))
            }
        }
    }

    /// The document at this path, or the package that contains it. It does not wait for the
    /// recorder.
    package func document(at path: [Name]) throws(VolumeError) -> Identifier? {
        try items.journal.read { [items] reader in
            guard let item = try items.item(at: path, reader),
                item.kind == .file || item.kind == .package
            else { return nil }
            return item.id
        }
    }

    /// Whether the hub may not have the document as it is on this device. Has it recorded now, and
    /// waits for that for a moment. If that is not known, the answer is yes: others must not begin
    /// with older contents.
    package func isUnsent(_ document: Identifier) -> Bool {
        do throws(VolumeError) {
            let path = try items.path(of: document)
            let isRecorded = items.recorder.catchUp(with: .path(path), timeoutSeconds: 0.25)
            guard isRecorded else { return true }
            return try DocumentSafety(items: items)
                .unsafeDocuments(below: path, limit: 1)
                .contains { [.unrecorded, .unsent, .sent].contains($0.reason) }
        } catch {
            return error.code == .notFound ? isRemovalUnsent(document) : true
        }
    }

    private func isRemovalUnsent(_ document: Identifier) -> Bool {
        let isUnsent = try? items.journal.read { reader in
            guard let item = try reader.item(id: document) else { return false }
            return try reader.hub.isUnsent(item.key) || reader.hub.isInOutbox(document)
        }
        return isUnsent ?? true
    }

    /// The present path of a document; nil if it has none. It does not wait for the recorder.
    package func path(of document: Identifier) throws(VolumeError) -> [Name]? {
        try items.journal.read { reader in
            guard let item = try reader.item(id: document), item.deleted == nil else { return nil }
            return try reader.path(of: item.key)
        }
    }
}

extension [OpenElsewhere] {
    /// Those of which the other list has none for the same document, device and use.
    fileprivate func without(_ others: [OpenElsewhere]) -> [OpenElsewhere] {
        func key(_ one: OpenElsewhere) -> OpenElsewhere {
            OpenElsewhere(
                document: one.document, device: one.device, deviceName: "", user: "",
                use: one.use, since: 0)
        }
        let known = Set(others.map(key))
        return filter { !known.contains(key($0)) }
    }
}
