import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// No commit reaches a constraint of the ledger's tables: what no device may send is refused in
/// words, with either kind of ledger.
@Suite("Hostile commits", .serialized) struct HostileCommitTests {
    private static let ledgers =
        ["SQLite"] + (PostgresServer.obstacle == nil ? ["PostgreSQL"] : [])

    private func withHub(_ ledger: String, _ body: (RunningHub) async throws -> Void) async throws {
        let scratch = try TemporaryDirectory("hub")
        let database =
            ledger == "PostgreSQL" ? try PostgresServer.database(for: scratch.path) : nil
        let hub = try await RunningHub(in: scratch, database: database)
        do { try await body(hub) } catch {
            try? await hub.stop()
            throw error
        }
        #expect(try await hub.administration().check().faults == [])
        try await hub.stop()
    }

    private func creation(
        _ name: String, _ revision: Revision, _ device: TestDevice
    ) -> Change {
        .create(Creation(kind: .file, placement: device.placement(name), revision: revision))
    }

    /// A device may hold a wrong belief, so that it sends a version under another item's id.
    @Test("a version belongs to one item", arguments: ledgers)
    func aVersionBelongsToOneItem(_ ledger: String) async throws {
        try await withHub(ledger) { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x"), bytes("y")])
            let (x, y) = (device.revision(of: bytes("x")), device.revision(of: bytes("y")))
            let (a, b) = (Identifier.random(), Identifier.random())
            let first = [
                device.entry(a, creation("a", x, device), bytes: bytes("x")),
                device.entry(b, creation("b", y, device), bytes: bytes("y")),
            ]
            #expect(try await device.commit(first).results.map(\.verdict) == [.applied, .applied])

            let wrong: [(Identifier, Change)] = [
                (.random(), creation("c", x, device)),
                // Files of one name with equal contents would become one item.
                (.random(), creation("a", x, device)),
                (b, .edit(x)), (b, .resolve([], x)), (b, creation("b", x, device)),
            ]
            for (number, (item, change)) in wrong.enumerated() {
                let entries = [
                    device.entry(item, change, bytes: bytes("x")), device.directory("\(number)"),
                ]
                let results = try await device.commit(entries).results
                #expect(results.map(\.verdict) == [nil, .applied], "\(change)")
                let refusal = try #require(results[0].refusal)
                #expect(refusal.code == .malformed && refusal.takenVersion == x.id, "\(refusal)")
                // Sending it again changes nothing.
                #expect(try await device.commit(entries).results == results)
            }
            // The item's own version is there already.
            let again: [Change] = [creation("a", x, device), .edit(x), .resolve([], x)]
            let repeated = try await device.commit(
                again.map { device.entry(a, $0, bytes: bytes("x")) })
            #expect(repeated.results.map(\.verdict) == [.applied, .applied, .applied])

            // With an id of its own, it is a version like others.
            let own = device.revision(of: bytes("x"))
            let unified = try await device.commit([
                device.entry(.random(), creation("a", own, device), bytes: bytes("x"))
            ])
            #expect(unified.results.map(\.verdict) == [.unified(into: a)])
        }
    }

    @Test("a version is named once in a group", arguments: ledgers)
    func aVersionIsNamedOnceInAGroup(_ ledger: String) async throws {
        try await withHub(ledger) { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x"), bytes("y")])
            let document = device.creation("document", bytes("y"))
            try await device.commit([document])
            let x = device.revision(of: bytes("x"))
            let groups: [[(Identifier, Change)]] = [
                [(.random(), creation("c", x, device)), (.random(), creation("d", x, device))],
                [(.random(), creation("c", x, device)), (.random(), creation("c", x, device))],
                [(.random(), creation("c", x, device)), (document.item, .edit(x))],
                [(document.item, .edit(x)), (.random(), creation("c", x, device))],
                [(document.item, .edit(x)), (document.item, .resolve([], x))],
            ]
            for (number, group) in groups.enumerated() {
                let entries = group.map { item, change in
                    device.entry(item, change, bytes: bytes("x"), group: UInt64(number))
                }
                let results = try await device.commit(entries).results
                #expect(results.map(\.verdict) == [nil, nil], "\(number)")
                #expect(
                    results.compactMap(\.refusal?.takenVersion) == [x.id], "\(number): \(results)")
            }
            let head = try await device.changes().changes.count
            #expect(head == 1)
        }
    }

    /// Two devices send operations that make little sense about a few items, versions and names.
    @Test("anything about anything", arguments: ledgers)
    func anything(_ ledger: String) async throws {
        var random = SeededRandom(named: "Hostile commits", usual: 1)
        try await withHub(ledger) { hub in
            var devices = [try await hub.device(), try await hub.device()]
            let texts = (0..<3).map { bytes("\($0)") }
            try await devices[0].upload(texts)
            // Also versions have these ids.
            let ids = (0..<8).map { _ in Identifier.random() } + [.root, devices[0].id]
            var verdicts: Set<String> = []
            for _ in 0..<300 {
                let index = random.below(2)
                if random.oneIn(40) {
                    let answer: EpochAnswer = try await Wire.post(
                        hub.url + Routes.selfEpoch, [String: String](), token: devices[index].token)
                    (devices[index].epoch, devices[index].number) = (answer.epoch, 1)
                }
                var entries: [OperationEntry] = []
                for _ in 0...random.below(4) {
                    // Most versions have contents of their own, and some have others.
                    let version = random.oneIn(2) ? .random() : random.pick(ids)
                    let number = Int(version.low % 3) + (random.oneIn(6) ? 1 : 0)
                    let text = texts[number % 3]
                    let change = change(ids, version, text, devices[index], &random)
                    var entry = devices[index].entry(
                        random.pick(ids), change, bytes: change.isWithContents ? text : nil,
                        group: random.oneIn(3) ? UInt64(random.below(2)) : nil)
                    entry.base = UInt64(random.below(600))
                    entries.append(entry)
                }
                let results = try await devices[index].commit(entries).results
                #expect(results.count == entries.count)
                for result in results {
                    verdicts.insert("\(result.verdict.map { "\($0)" } ?? "refused")".word)
                }
                if random.oneIn(4) {
                    #expect(try await devices[index].commit(entries).results == results)
                }
                _ = try await devices[index].changes(query: "&trashedAfter=0")
            }
            #expect(
                verdicts.isSuperset(of: ["applied", "overruled", "conflict", "refused"]),
                "\(verdicts)")
        }
    }

    private func change(
        _ items: [Identifier], _ version: Identifier, _ text: [UInt8], _ device: TestDevice,
        _ random: inout SeededRandom
    ) -> Change {
        let place = device.placement(
            random.pick(["a", "b", "c", "d"]), in: random.oneIn(2) ? .root : random.pick(items))
        let parents = random.oneIn(2) ? [] : [random.pick(items)]
        let revision = device.revision(of: text, id: version, parents: parents)
        switch random.below(9) {
        case 0, 1:
            return .create(Creation(kind: .file, placement: place, revision: revision))
        case 2: return .create(Creation(kind: .directory, placement: place))
        case 3: return .edit(revision)
        case 4:
            let by = OperationID(
                device: random.pick(items), epoch: UInt32(random.below(3)),
                number: UInt64(random.below(9)))
            return .move(place, base: by)
        case 5: return .delete(current: random.oneIn(2) ? nil : version)
        case 6: return .restore
        case 7:
            return .attribute("x:user.\(random.below(2))", random.oneIn(2) ? nil : text)
        default:
            return .resolve(
                random.oneIn(2) ? [] : [version], random.oneIn(2) ? nil : revision)
        }
    }
}

extension Change {
    fileprivate var isWithContents: Bool {
        switch self {
        case .create(let creation): creation.revision != nil
        case .edit: true
        case .resolve(_, let revision): revision != nil
        default: false
        }
    }
}

extension String {
    /// The text up to the first parenthesis.
    fileprivate var word: String { String(prefix { $0 != "(" }) }
}
