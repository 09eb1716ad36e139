import Model

@testable import Coordination

// The messages between the hub and the devices, and what must be true.
extension LeaseSchedule {
    // MARK: The devices

    mutating func apply(_ effects: [LeaseHolder.Effect], _ index: Int) {
        for effect in effects {
            switch effect {
            case .look: look(index)
            case .tell(let number, let documents): send(number, documents, index)
            }
        }
        schedule(index)
    }

    private mutating func look(_ index: Int) {
        let isFirst = devices[index].everLooked.isEmpty
        devices[index].isArmed = bug != .looksOnlyOnce || isFirst
        var open = Set(devices[index].open.keys)
        devices[index].everLooked.formUnion(open)
        if bug == .neverTellsOfAClose { open = devices[index].everLooked }
        let uses = open.reduce(into: [:]) { $0[$1] = DocumentUse.edits }
        let time = clock(index)
        if bug == .tellsAtOnce {
            _ = devices[index].holder.step(.looked(uses), at: time - LeaseTerms.settling)
        }
        apply(devices[index].holder.step(.looked(uses), at: time), index)
    }

    private mutating func send(
        _ number: UInt64, _ documents: [LeaseHolder.Document], _ index: Int
    ) {
        let device = devices[index]
        requests += 1
        if let last = device.lastTelling, now - last < LeaseTerms.pause, bug == nil {
            fail("device \(device.id.low) floods the hub")
        }
        devices[index].lastTelling = now
        devices[index].lastNumber = number
        for document in documents {
            let since = device.open[document.id] ?? .max
            if now - since < LeaseTerms.settling || since == .max,
                device.closed[document.id].map({ now - $0 > LeaseTerms.settling }) ?? true
            {
                fail("device \(device.id.low) tells of \(document.id.low), which was just opened")
            }
        }
        let telling = LeaseTable.Telling(
            volume: Self.volume, account: Self.account, device: device.id,
            process: device.process, number: number, documents: documents)
        request(.telling(telling, answers: number), index, else: .failed(number))
    }

    /// Sends a request, which arrives soon, late or never. The device learns that it failed if no
    /// answer has arrived in time.
    private mutating func request(_ message: Message, _ index: Int, else failed: Message) {
        let device = devices[index]
        add(.toDevice(index, life: device.life, failed), in: Self.patience)
        guard !device.isCutOff, isCalm || !random.oneIn(12) else { return }
        let delay =
            random.oneIn(8)
            ? Int64(random.below(Int(Self.late))) : Int64(random.below(20_000_000))
        add(.toHub(from: index, message), in: delay)
    }

    mutating func applyView(_ effects: [LeaseView<Shown>.Effect], _ index: Int) {
        for effect in effects where effect == .fetch {
            requests += 1
            if let last = devices[index].lastFetch, now - last < LeaseTerms.pause, bug == nil {
                fail("device \(devices[index].id.low) asks all the time")
            }
            devices[index].lastFetch = now
            devices[index].fetches += 1
            let number = devices[index].fetches
            devices[index].fetch = number
            request(.fetch(number), index, else: .fetchFailed(number))
        }
        schedule(index)
    }

    mutating func receive(_ message: Message, _ index: Int) {
        let time = clock(index)
        switch message {
        case .told(let number):
            apply(devices[index].holder.step(.told(number), at: time), index)
            let held = devices[index].holder.heldDocuments(at: time).map(\.id)
            devices[index].confirmed.formUnion(held)
        case .failed(let number):
            apply(devices[index].holder.step(.failed(number), at: time), index)
        case .fetched(let number, let leases, let revision):
            guard devices[index].fetch == number else { return }
            devices[index].fetch = nil
            applyView(
                devices[index].view.step(.fetched(leases, revision: revision), at: time), index)
        case .fetchFailed(let number):
            guard devices[index].fetch == number else { return }
            devices[index].fetch = nil
            applyView(devices[index].view.step(.failed, at: time), index)
        case .hint(let feed, let revision, let isBeat):
            guard devices[index].feed == feed, devices[index].isListening else { return }
            if isBeat, bug == .neverRests { requests += 1 }
            if isBeat, bug != .neverRenews {
                apply(devices[index].holder.step(.beat, at: time), index)
            }
            guard let revision else { return }
            let known = devices[index].view.leases
            let said =
                bug == .confirmsAnyRevision && !known.isEmpty && isBeat
                ? LeaseTable.revision(of: known) : revision
            applyView(devices[index].view.step(.hinted(said), at: time), index)
        case .telling, .fetch: break
        }
    }

    // MARK: The hub

    func leases(except device: Identifier) -> [Shown] {
        table.leases(of: Self.volume, except: device)
    }

    mutating func serve(_ message: Message, for index: Int) {
        switch message {
        case .telling(var telling, let number):
            if bug == .takesLateTellings { telling.number = UInt64(now) }
            // A telling of a killed process that arrives late replaces what the new one has told,
            // until that one tells again.
            if telling.process != devices[index].process { devices[index].mayBeForgotten = true }
            apply(table.step(.told(telling), at: hubClock))
            if bug == .forgetsNumbersAtClose, telling.documents.isEmpty {
                apply(table.step(.ended(device: telling.device), at: hubClock))
            }
            // After it has lost its memory, the hub may take a telling that is late.
            let isLast = number == devices[index].lastNumber
            if isLast, telling.process == devices[index].process {
                devices[index].mayBeForgotten = false
            }
            answer(.told(number), index)
        case .fetch(let number):
            let leases = leases(except: devices[index].id)
            answer(.fetched(number, leases, LeaseTable.revision(of: leases)), index)
        default: break
        }
    }

    private mutating func answer(_ message: Message, _ index: Int) {
        guard !devices[index].isCutOff, isCalm || !random.oneIn(12) else { return }
        add(
            .toDevice(index, life: devices[index].life, message),
            in: Int64(random.below(20_000_000)))
    }

    mutating func apply(_ effects: [LeaseTable.Effect]) {
        guard !effects.isEmpty else { return }
        for index in devices.indices { hint(index, isBeat: false) }
    }

    // MARK: What must be true

    /// Whoever relies on a lease has it, unless the hub lost its memory.
    mutating func checkReliance() {
        for index in devices.indices where !devices[index].isStopped {
            let device = devices[index]
            guard !device.mayBeForgotten else { continue }
            let time = clock(index)
            var relied = device.holder.heldDocuments(at: time).map(\.id)
            if bug == .reliesTooLong {
                relied = device.holder.heldDocuments(at: time - 20 * Self.second).map(\.id)
            }
            if bug == .reliesOnWhatItLeftOut, time < device.holder.relianceEnd {
                relied = Array(device.confirmed)
            }
            let leases = leases(except: Self.nobody).filter { $0.device == device.id }
                .map(\.document)
            for id in relied where !leases.contains(id) {
                fail("device \(device.id.low) relies on \(id.low), which the hub does not have")
            }
        }
    }

    /// Nothing is shown long after it was closed.
    mutating func checkViews() {
        let limit = 2 * LeaseTerms.duration + Self.late + Self.patience
        for index in devices.indices where !devices[index].isStopped {
            let isOver = bug != .showsForEver && clock(index) >= devices[index].view.end
            for lease in isOver ? [] : devices[index].view.leases {
                guard let holder = devices.first(where: { $0.id == lease.device }),
                    holder.open[lease.document] == nil
                else { continue }
                if now - (holder.closed[lease.document] ?? .min / 2) > limit {
                    fail("device \(index) shows \(lease), which was closed long ago")
                }
            }
        }
    }

    /// In calm times, everybody sees what is open.
    mutating func checkAgreement() {
        func open(except index: Int? = nil) -> [String] {
            devices.indices.filter { $0 != index }.flatMap { index in
                devices[index].open.keys.map { "\(devices[index].id.low) \($0.low)" }
            }.sorted()
        }
        func text(_ leases: [Shown]) -> [String] {
            leases.map { "\($0.device.low) \($0.document.low)" }.sorted()
        }
        let known = text(leases(except: Self.nobody))
        if known != open() { fail("the hub has \(known), but open are \(open())") }
        for index in devices.indices {
            let shown = text(devices[index].view.leases)
            guard shown != open(except: index) else { continue }
            fail("device \(index) shows \(shown), but open are \(open(except: index))")
        }
    }
}
