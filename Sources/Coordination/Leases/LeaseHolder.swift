import Model

/// Decides when a device tells the hub which documents its programs have open, and how long it may
/// rely on the leases that it has because of that. It is a value without clock and I/O: each event
/// comes with the time.
///
/// Each telling names all documents, so the last one that arrives is enough, and a lost one is
/// repaired by the next. Their numbers let the hub ignore one that arrives late.
package struct LeaseHolder: Sendable {
    package enum Event: Hashable, Sendable {
        /// Documents may have been opened or closed since the last look.
        case changed
        /// The time of `wakeTime` has come.
        case woken
        /// What is open now, as `look` has asked.
        case looked([Identifier: DocumentUse])
        /// The hub's feed has begun, or has sent its heartbeat.
        case beat
        /// The hub has taken the telling with this number.
        case told(UInt64)
        /// It is not known whether it has.
        case failed(UInt64)
        /// The device stops using the volume's hub.
        case ended
    }

    package enum Effect: Hashable, Sendable {
        /// Find out what is open, and answer with `looked`.
        case look
        /// Tell the hub, and answer with `told` or `failed`.
        case tell(UInt64, [Document])
    }

    /// A document of a telling, and for how long it has been open.
    package struct Document: Hashable, Sendable {
        package var id: Identifier
        package var use: DocumentUse
        package var age: Int64

        package init(id: Identifier, use: DocumentUse, age: Int64) {
            self.id = id
            self.use = use
            self.age = age
        }
    }

    private struct Open: Hashable, Sendable {
        var use: DocumentUse
        var since: Int64
    }

    private struct Telling: Hashable, Sendable {
        var number: UInt64
        var documents: [Identifier: DocumentUse]
        var time: Int64
    }

    private var open: [Identifier: Open] = [:]
    /// The documents of the last telling.
    private var last: [Identifier: DocumentUse] = [:]
    /// Whether the hub has confirmed the last telling.
    private var isConfirmed = true
    /// The telling that has no answer yet.
    private var sent: Telling?
    private var number: UInt64 = 0
    private var mustRenew = false
    /// The documents that the hub has confirmed and that no telling has left out since, and until
    /// when the device relies on that.
    private var held: Set<Identifier> = []
    private var heldUntil = Int64.min
    private var lastLook: Int64?
    private var lastTelling: Int64?
    /// The time of the last telling that named any document.
    private var lastNamed: Int64?
    private var nextLook: Int64?
    private var nextTelling: Int64?

    package init() {}

    /// When the next event is `woken`; nil if no time is waited for, so that an idle device sleeps.
    package var wakeTime: Int64? {
        guard let nextLook, let nextTelling else { return nextLook ?? nextTelling }
        return min(nextLook, nextTelling)
    }

    /// Whether heartbeats of the hub matter.
    package var hasLeases: Bool {
        !open.isEmpty || !last.isEmpty || !isConfirmed || sent != nil
    }

    /// Whether the device may rely on its lease. A device that was stopped asks after it continues,
    /// and learns that its time is over.
    package func holds(_ document: Identifier, at now: Int64) -> Bool {
        now < heldUntil && held.contains(document)
    }

    /// The documents whose lease the device may rely on, with their uses and ages.
    package func heldDocuments(at now: Int64) -> [Document] {
        guard now < heldUntil else { return [] }
        return held.compactMap { id in
            open[id].map { Document(id: id, use: $0.use, age: now - $0.since) }
        }
    }

    /// Until when the device relies on what `heldDocuments` returns.
    package var relianceEnd: Int64 { heldUntil }

    package mutating func step(_ event: Event, at now: Int64) -> [Effect] {
        switch event {
        case .changed:
            guard let lastLook, now < lastLook + LeaseTerms.settling else { return [.look] }
            nextLook = min(nextLook ?? .max, lastLook + LeaseTerms.settling)
            return []
        case .woken:
            return tell(at: now)
        case .looked(let documents):
            take(documents, at: now)
            return tell(at: now)
        case .beat:
            guard hasLeases else { return [] }
            mustRenew = true
            return [.look]
        case .told(let number):
            guard let telling = sent, telling.number == number else { return [] }
            sent = nil
            isConfirmed = true
            held = Set(telling.documents.keys)
            // The hub's time began later than this.
            heldUntil = telling.time + LeaseTerms.reliance
            return tell(at: now)
        case .failed(let number):
            guard sent?.number == number else { return [] }
            sent = nil
            return tell(at: now)
        case .ended:
            open = [:]
            (nextLook, nextTelling, lastTelling, sent) = (nil, nil, nil, nil)
            return tell(at: now)
        }
    }

    private mutating func take(_ documents: [Identifier: DocumentUse], at now: Int64) {
        open = documents.reduce(into: [:]) { known, next in
            known[next.key] = Open(use: next.value, since: open[next.key]?.since ?? now)
        }
        lastLook = now
        let settles = open.values.map { $0.since + LeaseTerms.settling }.filter { $0 > now }
        nextLook = settles.min()
    }

    private func settled(at now: Int64) -> [Identifier: DocumentUse] {
        open.filter { $0.value.since + LeaseTerms.settling <= now }.mapValues(\.use)
    }

    private mutating func tell(at now: Int64) -> [Effect] {
        // A process that was stopped may get an answer before it has looked again.
        if let nextLook, now >= nextLook { return [.look] }
        guard sent == nil else { return [] }
        nextTelling = nil
        let documents = settled(at: now)
        if documents.isEmpty, lastNamed.map({ now >= $0 + LeaseTerms.duration }) ?? true {
            // Whatever the hub was told, it has forgotten it by now.
            (last, isConfirmed) = ([:], true)
        }
        let isDue = mustRenew && !(documents.isEmpty && last.isEmpty && isConfirmed)
        guard isDue || documents != last else {
            mustRenew = false
            return []
        }
        if let lastTelling, now < lastTelling + LeaseTerms.pause {
            nextTelling = lastTelling + LeaseTerms.pause
            return []
        }
        mustRenew = false
        number += 1
        sent = Telling(number: number, documents: documents, time: now)
        (last, isConfirmed) = (documents, false)
        lastTelling = now
        if !documents.isEmpty { lastNamed = now }
        // The hub may end what is left out at any moment from now on.
        held.formIntersection(documents.keys)
        return [
            .tell(
                number,
                documents.map { id, use in
                    Document(id: id, use: use, age: now - (open[id]?.since ?? now))
                })
        ]
    }
}
