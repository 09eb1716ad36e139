import Model
import Synchronization

/// The documents for which programs wait before they write them, because the rules say so
/// (`lock=ask`, and `lock=hard` in `grants`) and another device edits them. The sync engine says
/// which ones they are, and the mount lets programs wait. Nothing of it is kept on the disk.
package final class GuardedDocuments: Sendable {
    /// Those of the rule `lock=hard`.
    package let grants = DocumentGrants()

    private struct State {
        var editors: [Identifier: [OpenElsewhere]] = [:]
        var isMeant: @Sendable ([Name]) -> Bool = { _ in false }
        var wanted: Set<Identifier> = []
        var released: Set<Identifier> = []
    }

    private let state = Mutex(State())
    private let any = Atomic(false)

    /// Called when the editors have changed; set by the mount.
    package let changed = CallbackSlot<@Sendable () -> Void>()
    /// Called when a program opens a document although others edit it; set by the daemon.
    package let atRisk =
        CallbackSlot<@Sendable (_ path: [Name], [OpenElsewhere], _ process: Int32) -> Void>()
    /// Called when this device begins or stops to want documents; set by `OpenDocuments`.
    let wantedChanged = CallbackSlot<@Sendable () -> Void>()

    init() {}

    /// Whether there are any. Each open looks at this first.
    package var isAny: Bool { any.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - isMeant: Whether the rules say that programs wait for the document with this path.
    ///   - isHard: Whether they say that only one device may edit it; nil if they never do.
    package func set(
        isMeant: @escaping @Sendable ([Name]) -> Bool, isHard: (@Sendable ([Name]) -> Bool)?
    ) {
        grants.set(isMeant: isHard)
        state.withLock { state in
            state.isMeant = isMeant
            any.store(isHard != nil || !state.editors.isEmpty, ordering: .relaxed)
        }
    }

    /// Whether the rules say that programs wait for the document with this path.
    package func isMeant(_ path: [Name]) -> Bool { state.withLock { $0.isMeant }(path) }

    /// - Parameter editors: Those who edit such documents on other devices; none while the hub is
    ///   not heard.
    package func set(_ editors: [Identifier: [OpenElsewhere]]) {
        let isNew = state.withLock { state in
            any.store(grants.isAny || !editors.isEmpty, ordering: .relaxed)
            guard state.editors != editors else { return false }
            state.editors = editors
            return true
        }
        if isNew { changed.current?() }
    }

    /// Whether a file can belong to one of them: it can be in a package, which is one document.
    package func mayHold(_ path: [Name]) -> Bool {
        guard isAny else { return false }
        let isMeant = state.withLock { $0.isMeant }
        return path.indices.contains { isMeant(Array(path[...$0])) }
    }

    package var editors: [Identifier: [OpenElsewhere]] { state.withLock { $0.editors } }

    // MARK: Asking others

    /// The documents that programs on this device wait for.
    package var wanted: Set<Identifier> { state.withLock { $0.wanted } }

    package func want(_ document: Identifier, _ isWanted: Bool) {
        state.withLock { state in
            if isWanted {
                state.wanted.insert(document)
            } else {
                state.wanted.remove(document)
            }
        }
        wantedChanged.current?()
    }

    // MARK: Being asked

    /// Whether the presenters of a document on this device have saved it and let go of it, because
    /// another device wants it.
    package func isReleased(_ document: Identifier) -> Bool {
        state.withLock { $0.released.contains(document) }
    }

    package func release(_ document: Identifier, _ isReleased: Bool) {
        state.withLock { state in
            if isReleased {
                state.released.insert(document)
            } else {
                state.released.remove(document)
            }
        }
        wantedChanged.current?()
    }

    package var released: Set<Identifier> { state.withLock { $0.released } }
}
