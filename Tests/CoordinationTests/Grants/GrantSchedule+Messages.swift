import Model
import Support

@testable import Coordination

extension GrantSchedule {
    mutating func happen(_ what: Happening) {
        if let index = target(of: what), devices[index].isStopped {
            return devices[index].waiting.append(what)
        }
        switch what {
        case .toHub(let hub, let from, let holder, let request):
            receive(request, hub, from, holder)
        case .transaction(let from, let holder, let number, let document, let ended, let hub):
            take(from, holder, number, document, ended: ended, hub)
        case .toDevice(let index, let life, let event):
            if devices[index].life == life { step(index, event) }
        case .committed(let index, let edit):
            let isThere = current.values.contains { $0.contains { $0.id == edit } }
            if !isThere, !conflicts.contains(edit) { fault = "a confirmed edit is lost" }
            devices[index].outbox.removeAll { $0.id == edit }
        case .wake(let index, let life):
            if devices[index].life == life { step(index, .woken) }
        case .beat(let index): beat(index)
        case .save(let index, let edit):
            devices[index].outbox.append(edit)
            send(index, .commit(edit))
        case .disturb: disturb()
        case .resume(let index):
            devices[index].isStopped = false
            let waiting = devices[index].waiting
            devices[index].waiting = []
            for one in waiting { happen(one) }
        case .heal(let index): devices[index].isCutOff = false
        }
    }

    /// The device to which it happens.
    private func target(of what: Happening) -> Int? {
        switch what {
        case .toDevice(let index, _, _), .committed(let index, _), .wake(let index, _),
            .beat(let index), .save(let index, _):
            index
        default: nil
        }
    }

    // MARK: Devices

    mutating func want(_ index: Int, _ document: Identifier, _ isWanted: Bool) {
        guard !devices[index].isStopped, !devices[index].isGone else { return }
        if isWanted {
            devices[index].wanted.insert(document)
        } else {
            devices[index].wanted.remove(document)
            devices[index].relied[document] = nil
        }
        step(index, .wanted(document, isWanted))
    }

    private mutating func beat(_ index: Int) {
        guard !devices[index].isGone else { return }
        add(.beat(index), after: 15)
        guard !devices[index].isCutOff else { return }
        step(index, .beat)
        // A program that was refused tries again.
        for document in Self.documents where devices[index].wanted.contains(document) {
            if token(index, document) == nil { step(index, .wanted(document, true)) }
        }
        for edit in devices[index].outbox { send(index, .commit(edit)) }
    }

    mutating func step(_ index: Int, _ event: GrantHolder.Event) {
        guard !devices[index].isGone else { return }
        let time = now + devices[index].offset
        let effects = devices[index].holder.step(event, at: time)
        if case .answered(let number, let token?) = event, let asked = devices[index].asked[number],
            let document = document(of: effects, index, token)
        {
            let until =
                bug == .countsFromTheAnswer
                ? time + LeaseTerms.reliance : asked + 2 * LeaseTerms.duration
            devices[index].relied[document] = (token, until)
        }
        for effect in effects {
            switch effect {
            case .take(let number, let document):
                devices[index].asked[number] = time
                send(index, .take(number, document))
            case .resume(let number, let document, let token):
                devices[index].asked[number] = time
                send(index, .resume(number, document, token))
            case .renew(let number, let document, let token):
                devices[index].asked[number] = time
                send(index, .renew(number, document, token))
            case .release(let number, let document, let token):
                devices[index].relied[document] = nil
                devices[index].tokens[document] = nil
                send(index, .release(number, document, token))
            case .gained(let document, let token): devices[index].tokens[document] = token
            case .refused, .lost: break
            }
        }
        if let wake = devices[index].holder.wakeTime {
            let seconds = max(0, (wake - time) / Self.second) + 1
            add(.wake(index, life: devices[index].life), after: seconds)
        }
    }

    /// The document that was granted, or renewed.
    private func document(
        of effects: [GrantHolder.Effect], _ index: Int, _ token: UInt64
    ) -> Identifier? {
        for case .gained(let document, token) in effects { return document }
        return Self.documents.first {
            devices[index].holder.token(for: $0, at: now + devices[index].offset) == token
        }
    }

    private mutating func send(_ index: Int, _ request: Request) {
        let isLost = devices[index].isCutOff || (!isCalm && chance(15))
        if isLost { return fail(index, request) }
        let device = devices[index]
        let holder = GrantRow.Holder(device: device.id, process: device.process)
        let hub = Int(below(2))
        add(.toHub(hub, from: index, holder, request), after: delay())
        // The device does not wait for an answer for long, but the request may still arrive.
        if case .commit = request { return }
        if !isCalm, chance(10) { fail(index, request) }
    }

    private mutating func fail(_ index: Int, _ request: Request) {
        switch request {
        case .take(let number, _), .resume(let number, _, _), .renew(let number, _, _):
            add(.toDevice(index, life: devices[index].life, .failed(number)), after: 5)
        case .release, .commit: break
        }
    }

    private mutating func delay() -> Int64 { isCalm ? 0 : chance(20) ? below(90) : below(2) }

    // MARK: Hubs

    private func row(_ document: Identifier, _ hub: Int) -> GrantRow? {
        bug == .keepsGrantsInMemory ? hubs[hub].rows[document] : rows[document]
    }

    private mutating func put(_ row: GrantRow, _ document: Identifier, _ hub: Int) {
        rows[document] = row
        hubs[hub].rows[document] = row
    }

    /// The row, as a request is compared with it.
    private func compared(_ row: GrantRow) -> GrantRow {
        guard bug == .takesLateRequests else { return row }
        return GrantRow(token: row.token, holder: row.holder, isHeld: row.isHeld, number: 0)
    }

    private mutating func receive(
        _ request: Request, _ hub: Int, _ from: Int, _ holder: GrantRow.Holder
    ) {
        switch request {
        case .take(let number, let document):
            var ended: GrantRow?
            if let row = row(document, hub), row.isHeld, row.holder.device != holder.device,
                isOver(row, document, hub)
            {
                ended = row
            }
            add(
                .transaction(from: from, holder, number, document, ended: ended, hub),
                after: isCalm ? 0 : below(4))
        case .resume(let number, let document, let token):
            guard var row = row(document, hub) else { return }
            if bug == .resumesWhatAnotherHas, row.holder.device != holder.device {
                let thief = GrantRow.Holder(device: holder.device, process: row.holder.process)
                row = GrantRow(token: token, holder: thief, isHeld: row.isHeld, number: 0)
            }
            let isResumed = row.resume(token, by: holder, number: number)
            if isResumed { put(row, document, hub) }
            answer(from, .answered(number, token: isResumed ? token : nil), holder)
        case .renew(let number, let document, let token):
            guard let found = row(document, hub) else { return }
            var row = compared(found)
            let isRenewed = row.renew(token, by: holder, number: number)
            put(isRenewed ? row : found, document, hub)
            answer(from, .answered(number, token: isRenewed ? token : nil), holder)
        case .release(let number, let document, let token):
            guard let found = row(document, hub) else { return }
            var row = compared(found)
            row.release(token, by: holder, number: number)
            if !row.isHeld, found.isHeld {
                known[document]?.isHeld = false
                put(row, document, hub)
            }
        case .commit(let edit): commit(edit, from, holder.device, hub)
        }
    }

    private mutating func isOver(_ row: GrantRow, _ document: Identifier, _ hub: Int) -> Bool {
        let key = GrantWatch.Document(volume: Identifier(high: 9, low: 9), item: document)
        var seen = row
        if bug == .ignoresRenewals {
            seen = GrantRow(token: row.token, holder: row.holder, isHeld: row.isHeld, number: 0)
        }
        // All devices are those of one account.
        let account = Identifier(high: 9, low: 8)
        let isOver = hubs[hub].watch.isOver(
            seen, of: key, askedBy: account, at: now + hubs[hub].offset)
        switch bug {
        case .releasedByCloseOnly: return false
        case .takesOverAtFirstSight: return true
        default: return isOver
        }
    }

    private mutating func take(
        _ from: Int, _ holder: GrantRow.Holder, _ number: UInt64, _ document: Identifier,
        ended: GrantRow?, _ hub: Int
    ) {
        let wall = UInt64(max(1, (now + hubs[hub].wall) / Self.second + 10_000))
        let bug = bug
        var head = head
        let next = {
            head += 1
            return bug == .wallClockTokens ? wall : head
        }
        var token: UInt64?
        if let found = row(document, hub) {
            let isUnchecked = bug == .decidesOutsideTheTransaction || bug == .ignoresRenewals
            var row = compared(found)
            let before = row
            token = row.take(
                by: holder, number: number, ended: isUnchecked && ended != nil ? row : ended,
                next: next)
            if row != before {
                if row.token != found.token { issue(row.token, of: document, to: holder.device) }
                put(row, document, hub)
            }
        } else {
            let first = GrantRow(token: next(), holder: holder, number: number)
            issue(first.token, of: document, to: holder.device)
            put(first, document, hub)
            token = first.token
        }
        self.head = head
        answer(from, .answered(number, token: token), holder)
    }

    private mutating func answer(
        _ index: Int, _ event: GrantHolder.Event, _ holder: GrantRow.Holder
    ) {
        guard devices[index].process == holder.process, !devices[index].isCutOff,
            isCalm || chance(85)
        else { return fail(index, .take(number(of: event), Self.documents[0])) }
        add(.toDevice(index, life: devices[index].life, event), after: delay())
    }

    private func number(of event: GrantHolder.Event) -> UInt64 {
        if case .answered(let number, _) = event { number } else { 0 }
    }

    private mutating func commit(_ edit: Edit, _ from: Int, _ device: Identifier, _ hub: Int) {
        let isThere = current[edit.document]?.contains { $0.id == edit.id } ?? false
        if !isThere, !conflicts.contains(edit.id) {
            head += 1
            var isAdmitted =
                row(edit.document, hub)?.admits(edit.token, from: device)
                ?? (edit.token == nil)
            if bug == .noFence { isAdmitted = true }
            if bug == .believesHighTokens, let token = edit.token {
                isAdmitted = token >= row(edit.document, hub)?.token ?? 0
            }
            if isAdmitted {
                becameCurrent(edit, of: device)
            } else if bug != .losesFencedEdits {
                conflicts.insert(edit.id)
            }
        }
        if !devices[from].isCutOff { add(.committed(from, edit: edit.id), after: delay()) }
    }

    // MARK: Disturbing

    private mutating func disturb() {
        if isCalm { return }
        add(.disturb, after: 1 + below(6))
        let index = Int(below(3))
        let document = Self.documents[Int(below(2))]
        switch below(20) {
        case 0...4: want(index, document, true)
        case 5: if chance(50) { want(index, document, false) }
        case 6...11: edit(index, document)
        case 12, 13:
            guard !devices[index].isStopped else { return }
            devices[index].isStopped = true
            add(.resume(index), after: below(150))
        case 14:
            devices[index].isCutOff = true
            add(.heal(index), after: below(120))
        case 15: if chance(30) { kill(index) }
        case 16: hubs[Int(below(2))].watch = GrantWatch()
        case 17: hubs[Int(below(2))].wall += (below(4000) - 2000) * Self.second
        case 18: if chance(4), index > 0 { devices[index].isGone = true }
        default: forge(index, document)
        }
    }

    /// A program begins to edit. It saves some time later, and nobody asks again then.
    private mutating func edit(_ index: Int, _ document: Identifier) {
        guard !devices[index].isStopped, !devices[index].isGone else { return }
        let token = token(index, document)
        guard token != nil || chance(20) else { return }
        edits += 1
        add(.save(index, Edit(id: edits, document: document, token: token)), after: below(20))
    }

    /// A hostile device names a token that it was not given.
    private mutating func forge(_ index: Int, _ document: Identifier) {
        guard !devices[index].isStopped, !devices[index].isGone else { return }
        edits += 1
        let token = chance(50) ? UInt64.max : known[document]?.token ?? 1
        if known[document]?.device == devices[index].id { return }
        add(.save(index, Edit(id: edits, document: document, token: token)), after: 0)
    }

    private mutating func kill(_ index: Int) {
        guard !devices[index].isGone else { return }
        devices[index].life += 1
        devices[index].process = Identifier(
            high: 2, low: devices[index].process.low + 1)
        devices[index].holder = GrantHolder()
        devices[index].wanted = []
        devices[index].relied = [:]
        devices[index].asked = [:]
        devices[index].isStopped = false
        // What programs had saved is on the disk; the rest has ended with the process.
        let waiting = devices[index].waiting
        devices[index].waiting = []
        for one in waiting {
            switch one {
            case .save, .beat: happen(one)
            default: break
            }
        }
        // It goes on with what it has on the disk, or forgets it, as after a loss of the disk.
        let tokens = devices[index].tokens.sorted { $0.key.low < $1.key.low }
        devices[index].tokens = [:]
        for (document, token) in tokens where chance(70) {
            devices[index].wanted.insert(document)
            devices[index].tokens[document] = token
            step(index, .resumed(document, token: token))
        }
    }
}
