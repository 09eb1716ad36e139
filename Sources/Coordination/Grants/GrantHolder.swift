import Model

/// Decides when a device asks the hub for documents that only one device may edit, and for how long
/// it may rely on what it was granted. It is a value without clock and I/O, like `LeaseHolder`.
///
/// A grant that was lost is not asked for again by itself: what was begun under it carries its
/// token to the end, and the hub decides.
package struct GrantHolder: Sendable {
    package enum Event: Hashable, Sendable {
        /// Programs want to edit the document, or do not any more.
        case wanted(Identifier, Bool)
        /// An earlier process of the device had the document under this token, and did not release
        /// it.
        case resumed(Identifier, token: UInt64)
        /// The hub's feed has begun, or has sent its heartbeat.
        case beat
        /// The time of `wakeTime` has come.
        case woken
        /// The hub's answer to the request with this number; without a token if another device has
        /// the document.
        case answered(UInt64, token: UInt64?)
        /// It is not known whether the hub got it.
        case failed(UInt64)
        /// The device stops using the volume's hub.
        case ended
    }

    package enum Effect: Hashable, Sendable {
        /// Ask the hub for the document, for what an earlier process had, or for more time with the
        /// token that it gave. Answer with `answered` or `failed`.
        case take(UInt64, Identifier)
        case resume(UInt64, Identifier, token: UInt64)
        case renew(UInt64, Identifier, token: UInt64)
        /// Tell the hub that the grant is not needed any more. The numbers of all requests grow.
        case release(UInt64, Identifier, token: UInt64)
        /// The device may edit the document, and its edits carry this token.
        case gained(Identifier, token: UInt64)
        /// Another device has it.
        case refused(Identifier)
        /// The device must not begin to edit it any more.
        case lost(Identifier, token: UInt64)
    }

    private struct Grant: Hashable, Sendable {
        var token: UInt64
        var until: Int64
    }

    private struct Sent: Hashable, Sendable {
        var number: UInt64
        /// When it was sent. The hub's time began later than this.
        var time: Int64
    }

    private struct Entry: Hashable, Sendable {
        var grant: Grant?
        /// The token of an earlier process, until the hub has answered whether it still counts.
        var former: UInt64?
        var sent: Sent?
        var isWanted = true
    }

    /// For how long it relies on an answer, in nanoseconds.
    private let reliance: Int64
    private var entries: [Identifier: Entry] = [:]
    private var last: UInt64 = 0

    package init(reliance: Int64 = LeaseTerms.reliance) { self.reliance = reliance }

    /// When the next event is `woken`; nil if no time is waited for.
    package var wakeTime: Int64? { entries.values.lazy.compactMap(\.grant?.until).min() }

    /// Whether heartbeats of the hub matter.
    package var hasEntries: Bool { !entries.isEmpty }

    /// The token under which the device may edit the document now. A device that was stopped asks
    /// after it continues, and learns that its time is over.
    package func token(for document: Identifier, at now: Int64) -> UInt64? {
        entries[document]?.grant.flatMap { now < $0.until ? $0.token : nil }
    }

    /// Until when the device relies on a document's grant; nil if it does not now.
    package func end(of document: Identifier, at now: Int64) -> Int64? {
        entries[document]?.grant.flatMap { now < $0.until ? $0.until : nil }
    }

    package mutating func step(_ event: Event, at now: Int64) -> [Effect] {
        let lost = expire(at: now)
        switch event {
        case .wanted(let document, true): return lost + want(document, at: now)
        case .wanted(let document, false): return lost + giveUp(document)
        case .resumed(let document, let token):
            guard entries[document] == nil else { return lost }
            entries[document] = Entry(former: token)
            return lost + ask(document, at: now)
        case .beat: return lost + entries.keys.sorted(by: isBefore).flatMap { ask($0, at: now) }
        case .woken: return lost
        case .answered(let number, let token): return lost + take(token, number, at: now)
        case .failed(let number):
            guard let document = document(of: number) else { return lost }
            entries[document]?.sent = nil
            return lost + forget(document)
        case .ended: return lost + entries.keys.sorted(by: isBefore).flatMap { giveUp($0) }
        }
    }

    private mutating func want(_ document: Identifier, at now: Int64) -> [Effect] {
        guard var entry = entries[document] else {
            entries[document] = Entry()
            return ask(document, at: now)
        }
        entry.isWanted = true
        entries[document] = entry
        return entry.grant.map { [.gained(document, token: $0.token)] } ?? ask(document, at: now)
    }

    /// Asks for the document, or for more time, unless an answer is still awaited.
    private mutating func ask(_ document: Identifier, at now: Int64) -> [Effect] {
        guard let entry = entries[document], entry.isWanted, entry.sent == nil else { return [] }
        last += 1
        entries[document]?.sent = Sent(number: last, time: now)
        if let grant = entry.grant { return [.renew(last, document, token: grant.token)] }
        if let former = entry.former { return [.resume(last, document, token: former)] }
        return [.take(last, document)]
    }

    private mutating func giveUp(_ document: Identifier) -> [Effect] {
        guard let entry = entries[document] else { return [] }
        entries[document]?.isWanted = false
        entries[document]?.grant = nil
        // The answer to a renewal before the release says nothing about the time after it.
        if entry.grant != nil { entries[document]?.sent = nil }
        return release(document, entry.grant?.token) + forget(document)
    }

    private mutating func release(_ document: Identifier, _ token: UInt64?) -> [Effect] {
        guard let token else { return [] }
        last += 1
        return [.release(last, document, token: token)]
    }

    /// Forgets a document that nobody wants and of which no answer is awaited.
    private mutating func forget(_ document: Identifier) -> [Effect] {
        if let entry = entries[document], !entry.isWanted, entry.sent == nil {
            entries[document] = nil
        }
        return []
    }

    private mutating func take(_ token: UInt64?, _ number: UInt64, at now: Int64) -> [Effect] {
        guard let document = document(of: number), let entry = entries[document],
            let sent = entry.sent
        else { return [] }
        entries[document]?.sent = nil
        entries[document]?.former = nil
        guard entry.isWanted else {
            // The answer to a request that nobody needs any more.
            return release(document, token) + forget(document)
        }
        guard let token else {
            entries[document] = nil
            let known = entry.grant?.token ?? entry.former
            return [known.map { .lost(document, token: $0) } ?? .refused(document)]
        }
        let until = sent.time + reliance
        guard now < until else {
            // The device was stopped for so long that the hub may have given it to another one.
            entries[document] = nil
            return release(document, token) + [.refused(document)]
        }
        entries[document]?.grant = Grant(token: token, until: until)
        return entry.grant == nil ? [.gained(document, token: token)] : []
    }

    private mutating func expire(at now: Int64) -> [Effect] {
        let over = entries.filter { $0.value.grant.map { $0.until <= now } ?? false }
        return over.keys.sorted(by: isBefore).map { document in
            let token = over[document]?.grant?.token ?? 0
            entries[document]?.grant = nil
            entries[document]?.isWanted = false
            _ = forget(document)
            return .lost(document, token: token)
        }
    }

    private func document(of number: UInt64) -> Identifier? {
        entries.first { $0.value.sent?.number == number }?.key
    }

    private func isBefore(_ a: Identifier, _ b: Identifier) -> Bool {
        (a.high, a.low) < (b.high, b.low)
    }
}
