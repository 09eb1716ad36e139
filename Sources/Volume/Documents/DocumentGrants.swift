import CLinux
import Model
import Synchronization

/// The documents that only one device may edit, because the rules say `lock=hard`: which ones
/// programs on this device write or want to write, and which ones the hub has granted to it. The
/// mount lets programs wait here, and the sync engine asks the hub. It keeps nothing on the disk.
package final class DocumentGrants: Sendable {
    /// Why a program may not write a document.
    package enum Refusal: Hashable, Sendable {
        /// Another device has it; which one, as far as the hub has told.
        case elsewhere(OpenElsewhere?)
        /// The hub has a newer version, which has not arrived here.
        case arriving
        /// The hub cannot be asked.
        case offline
        /// The account may only read the volume.
        case reader
    }

    package typealias Answer = @Sendable (Refusal?) -> Void

    private struct Waiting {
        var number: UInt64
        var answer: Answer
    }

    private struct State {
        var isMeant: (@Sendable ([Name]) -> Bool)?
        /// Whether an engine answers.
        var isServed = false
        var last: UInt64 = 0
        /// The programs that write each document, and those that wait to.
        var writers: [Identifier: Int] = [:]
        var waiting: [Identifier: [Waiting]] = [:]
        /// The documents that are edited on this device, also by programs that do not keep them
        /// open.
        var edited: Set<Identifier> = []
        /// Until when the device relies on a grant, in nanoseconds since the machine was started.
        /// After that a program must ask again.
        var granted: [Identifier: Int64] = [:]
        var refusals: [Identifier: (refusal: Refusal, time: Int64)] = [:]
    }

    private let state = Mutex(State())
    private let any = Atomic(false)

    /// Called when programs begin to want a document, or write one no more; set by the engine.
    package let changed = CallbackSlot<@Sendable () -> Void>()

    init() {}

    /// Whether the rules have such documents.
    package var isAny: Bool { any.load(ordering: .relaxed) }

    /// - Parameter isMeant: Whether only one device may edit the document with this path; nil if
    ///   there are no such documents.
    func set(isMeant: (@Sendable ([Name]) -> Bool)?) {
        any.store(isMeant != nil, ordering: .relaxed)
        state.withLock { $0.isMeant = isMeant }
    }

    /// Whether only one device may edit the document with this path.
    package func isMeant(_ path: [Name]) -> Bool {
        isAny && state.withLock(\.isMeant)?(path) ?? false
    }

    /// Whether a file can belong to such a document: it can be in a package, which is one document.
    package func mayHold(_ path: [Name]) -> Bool {
        guard isAny, let isMeant = state.withLock(\.isMeant) else { return false }
        return path.indices.contains { isMeant(Array(path[...$0])) }
    }

    // MARK: Programs

    /// Asks for a document for one program. `answer` is called once, perhaps before this returns;
    /// it must be quick. If it is called without a refusal, `end` must be called later.
    ///
    /// - Returns: A number for `withdraw`.
    @discardableResult
    package func take(_ document: Identifier, _ answer: @escaping Answer) -> UInt64 {
        let now = cl_clock_boottime_ns()
        let (number, known) = state.withLock { state -> (UInt64, Refusal??) in
            state.last += 1
            if now < state.granted[document] ?? .min {
                state.writers[document, default: 0] += 1
                return (state.last, .some(nil))
            }
            guard state.isServed else { return (state.last, .some(.offline)) }
            state.waiting[document, default: []].append(
                Waiting(number: state.last, answer: answer))
            return (state.last, nil)
        }
        if let known { answer(known) } else { changed.current?() }
        return number
    }

    /// Ends a wait, if it is not over yet.
    package func withdraw(_ document: Identifier, _ number: UInt64) {
        state.withLock { state in
            state.waiting[document]?.removeAll { $0.number == number }
            if state.waiting[document]?.isEmpty == true { state.waiting[document] = nil }
        }
    }

    /// A program writes the document no more.
    package func end(_ document: Identifier) {
        let isLast = state.withLock { state in
            let count = (state.writers[document] ?? 1) - 1
            state.writers[document] = count > 0 ? count : nil
            return count <= 0
        }
        if isLast { changed.current?() }
    }

    /// Why a program was not allowed to write the document when it last tried, and when that was in
    /// nanoseconds since 1970; nil if it was allowed.
    package func refusal(of document: Identifier) -> (refusal: Refusal, time: Int64)? {
        state.withLock { $0.refusals[document] }
    }

    /// Whether this device relies on a grant of the document now.
    package func isGranted(_ document: Identifier) -> Bool {
        let now = cl_clock_boottime_ns()
        return state.withLock { now < $0.granted[document] ?? .min }
    }

    // MARK: The sync engine

    package func beginServing() { state.withLock { $0.isServed = true } }

    /// From now on nobody gets a document.
    package func endServing() {
        let waiting = state.withLock { state in
            state.isServed = false
            return state.waiting.keys
        }
        for document in waiting { refuse(document, .offline) }
    }

    /// Which documents are wanted, and by whom.
    package struct Wanted {
        /// Programs wait for them.
        package var waiting: Set<Identifier>
        /// Programs have them open for writing.
        package var written: Set<Identifier>
        /// Programs edit them, as their claims and owner files say. They may have them open or not.
        package var edited: Set<Identifier>
    }

    package var wanted: Wanted {
        state.withLock { state in
            Wanted(
                waiting: Set(state.waiting.keys), written: Set(state.writers.keys),
                edited: state.edited)
        }
    }

    /// - Parameter documents: The documents that are edited on this device now.
    package func setEdited(_ documents: Set<Identifier>) {
        let isNew = state.withLock { state in
            defer { state.edited = documents }
            return state.edited != documents
        }
        if isNew { changed.current?() }
    }

    /// The device may edit the document until `end`. Those who wait go on.
    package func grant(_ document: Identifier, until end: Int64) {
        let ready = state.withLock { state in
            state.granted[document] = end
            state.refusals[document] = nil
            let ready = state.waiting.removeValue(forKey: document) ?? []
            if !ready.isEmpty { state.writers[document, default: 0] += ready.count }
            return ready
        }
        for one in ready { one.answer(nil) }
    }

    /// Those who wait for the document do not get it.
    package func refuse(_ document: Identifier, _ refusal: Refusal) {
        let waiting = state.withLock { state in
            let waiting = state.waiting.removeValue(forKey: document) ?? []
            if !waiting.isEmpty {
                if state.refusals.count > 1024 { state.refusals = [:] }
                state.refusals[document] = (refusal, cl_clock_realtime_ns())
            }
            return waiting
        }
        for one in waiting { one.answer(refusal) }
    }

    /// The device relies on the grant no more. Programs may still write what they have open.
    package func lose(_ document: Identifier) {
        state.withLock { _ = $0.granted.removeValue(forKey: document) }
    }

    /// Stops relying on a grant because nothing on this device needs it. Returns false if a program
    /// does by now.
    package func giveUp(_ document: Identifier) -> Bool {
        state.withLock { state in
            guard state.writers[document] == nil, state.waiting[document] == nil,
                !state.edited.contains(document)
            else { return false }
            state.granted[document] = nil
            return true
        }
    }
}

extension OpenDocuments {
    /// The document at this path, or the package around it, if only one device may edit it and the
    /// hub knows it. It does not wait for the recorder.
    package func mustBeGranted(at path: [Name]) throws(VolumeError) -> Identifier? {
        guard guarded.grants.mayHold(path), let document = try document(at: path),
            try mustBeGranted(document)
        else { return nil }
        return document
    }

    /// Whether only one device may edit a document, and the hub knows it.
    package func mustBeGranted(_ document: Identifier) throws(VolumeError) -> Bool {
        guard let path = try self.path(of: document), guarded.grants.isMeant(path) else {
            return false
        }
        return try isAtHub(document)
    }

    package func isAtHub(_ document: Identifier) throws(VolumeError) -> Bool {
        try items.journal.read { try $0.hub.mirror(document)?.base != nil }
    }
}
