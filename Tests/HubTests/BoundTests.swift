import Foundation
import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// The hub bounds what each client can make it do.
struct BoundTests {
    // MARK: Clients without a token

    @Test func whoIsUnknownSendsLittle() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let long = bytes("{\"code\": \"" + String(repeating: "x", count: 8000) + "\"}")
            let reply = try await Wire.send(
                hub.url + Routes.enrol, long, token: nil, type: ContentType.json)
            #expect(reply.status == 413)
            // Without a token the body is not read.
            let none = try await Wire.send(
                device.path(.commit), long, token: nil, type: ContentType.json)
            #expect(none.status == 401)
        }
    }

    /// A proxy on the hub's machine names its clients; the header of any other sender is ignored.
    @Test func behindAProxyEachGuesserWaitsAlone() async throws {
        try await RunningHub.with { hub in
            let addresses = Array(repeating: "1.2.3.4", count: 11) + ["1.2.3.5"]
            let answers = try await hub.guessCodes(forwardedFor: addresses.map { "9.9.9.9, \($0)" })
            #expect(answers == Array(repeating: 403, count: 10) + [429, 403])
        }
    }

    /// Wrong codes that are tried at the same time count, too.
    @Test func manyGuessesAtOnceAreGuesses() async throws {
        try await RunningHub.with { hub in
            let request = EnrolRequest(code: "nothing", deviceName: "d", device: .random())
            let codes = try await withThrowingTaskGroup(of: Failure.Code.self) { group in
                for _ in 0..<60 {
                    group.addTask {
                        try await failure {
                            try await hub.hub.devices.enrol(request, from: "1.2.3.4")
                        }.code
                    }
                }
                return try await group.reduce(into: [Failure.Code]()) { $0.append($1) }
            }
            let tried = codes.count { $0 == .code }
            #expect(tried <= 10 && codes.contains(.tooMany))
            // What was right does not count.
            hub.advance(seconds: 61)
            for _ in 0..<12 { _ = try await hub.device() }
        }
    }

    @Test func metricsAreForThisMachineAndForDevices() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let url = hub.url + Routes.metrics
            #expect(try await Wire.send(url, method: "GET", nil, token: nil).status == 200)
            for (token, status) in [(nil, 401), ("x", 401), (device.token, 200)] {
                let reply = try await Wire.send(
                    url, method: "GET", nil, token: token,
                    headers: ["X-Forwarded-For": "1.2.3.4"])
                #expect(reply.status == status)
            }
        }
    }

    // MARK: Devices

    private func attribute(_ count: Int) -> Change {
        .attribute("x:user.\(count)", [UInt8](repeating: 7, count: HubLimits.attributeBytes))
    }

    private func deviceWithDocument(_ hub: RunningHub) async throws -> (TestDevice, Identifier) {
        var device = try await hub.device()
        let id = Identifier.random()
        try await device.upload([bytes("x")])
        try await device.commit([device.creation("a", bytes("x"), id: id)])
        return (device, id)
    }

    @Test func whatIsKnownOfOneDocumentIsBounded() async throws {
        try await RunningHub.with { hub in
            var (device, id) = try await deviceWithDocument(hub)
            var (taken, refused) = (0, 0)
            for start in stride(from: 0, to: 32, by: 8) {
                let batch = (start..<start + 8).map { device.entry(id, attribute($0)) }
                for result in try await device.commit(batch).results {
                    if result.refusal?.code == .malformed { refused += 1 } else { taken += 1 }
                }
            }
            #expect(refused > 0 && taken > 8)
            // A group is refused as a whole.
            let group = (0..<32).map { device.entry(id, attribute(100 + $0), group: 1) }
            let answer = try await device.commit(group)
            #expect(answer.results.allSatisfy { $0.verdict == nil })
            // An existing attribute can be changed and removed.
            #expect(try await device.commit([device.entry(id, attribute(0))]).results[0].isDone)
            let less = device.entry(id, .attribute("x:user.0", nil))
            #expect(try await device.commit([less]).results[0].isDone)
            let whole = Creation(
                kind: .directory, placement: device.placement("d"),
                attributes: Dictionary(
                    uniqueKeysWithValues: (0..<40).map {
                        ("x:user.\($0)", [UInt8](repeating: 1, count: HubLimits.attributeBytes))
                    }))
            let made = try await device.commit([device.entry(.random(), .create(whole))])
            #expect(made.results[0].refusal?.code == .malformed)
            let page = try await device.changes()
            #expect(page.changes.count == 1)
        }
    }

    @Test func conflictsAndAttributesOfOneDocumentAreBounded() async throws {
        try await RunningHub.with { hub in
            var (device, id) = try await deviceWithDocument(hub)
            func conflict(_ number: UInt8, _ kind: UInt8 = 1) -> OperationEntry {
                var revision = device.revision(of: bytes("x"))
                revision.content = .sha256([number, kind])
                return device.entry(id, .edit(revision), bytes: bytes("x"))
            }
            let edits = (0..<UInt8.max).map { conflict($0) }
            let made = try await device.commit(edits).results
            #expect(made.allSatisfy { $0.verdict == .conflict })
            let last = try await device.commit([conflict(255), device.entry(id, attribute(0))])
            #expect(last.results[0].verdict == .conflict)
            // An attribute is still taken: there are as many conflict versions as there may be.
            #expect(last.results[1].isDone)
            let refused = try await device.commit([conflict(0, 2)]).results[0]
            #expect(refused.refusal?.message.contains("resolve some") == true)
            let settled = device.entry(
                id, .resolve(edits.prefix(9).map(\.change.revision!.id), nil))
            #expect(try await device.commit([settled]).results[0].isDone)
            let names = (0..<HubLimits.attributes).map { number in
                device.entry(id, .attribute("x:user.small.\(number)", [1]))
            }
            let results = try await device.commit(names).results
            #expect(results.dropLast().allSatisfy { $0.isDone })
            #expect(results.last?.refusal?.message.contains("attributes") == true)
        }
    }

    /// The work of a group cannot be split, so all other accounts wait for it.
    @Test func aGroupDoesSoMuchWork() async throws {
        try await RunningHub.with { hub in
            var (one, other) = (try await hub.device(), try await hub.device())
            let directory = one.directory("large")
            let children = (0..<900).map { number in
                let place = one.placement("\(number)", in: directory.item)
                return one.entry(
                    .random(), .create(Creation(kind: .directory, placement: place)))
            }
            try await one.commit([directory] + children)
            // This device has not seen the directory, so everything in it is sent again each time.
            let group = (0..<200).map { _ in
                other.entry(directory.item, .delete(current: nil), group: 1)
            }
            let refused = try await other.commit(group).results
            #expect(refused.allSatisfy { $0.refusal?.code == .malformed })
            #expect(refused.first?.refusal?.message.contains("too much work") == true)
            let few = (0..<20).map { _ in
                other.entry(directory.item, .delete(current: nil), group: 2)
            }
            let answers = try await other.commit(few + [other.directory("small")]).results
            #expect(answers.dropLast().allSatisfy { $0.verdict == .overruled(.unseenChange) })
            #expect(answers.last?.verdict == .applied)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// A decoded body needs many times its bytes in memory.
    @Test func aBodyHasSoManyValues() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let zeros = Array(repeating: "0", count: HubLimits.bodyValues + 1)
            let body = bytes("{\"revisions\": [\(zeros.joined(separator: ","))]}")
            for call in [VolumeCall.durability, .commit] {
                let reply = try await Wire.send(
                    device.path(call), body, token: device.token, type: ContentType.json)
                #expect(reply.failure?.code == .tooLarge)
            }
        }
    }

    @Test func pagesAreBoundedByBytes() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let value = [UInt8](repeating: 7, count: HubLimits.attributeBytes)
            for index in 0..<20 {
                let creation = Creation(
                    kind: .directory, placement: device.placement("\(index)"),
                    attributes: Dictionary(
                        uniqueKeysWithValues: (0..<10).map { ("x:user.\($0)", value) }))
                try await device.commit([device.entry(.random(), .create(creation))])
            }
            var (after, seen, pages) = (UInt64(0), 0, 0)
            while true {
                let page = try await device.changes(after: after)
                #expect(page.packed.count < 6 << 20)
                #expect(page.objection(after: after) == nil)
                (after, seen, pages) = (page.next, seen + page.changes.count, pages + 1)
                if page.next == page.head { break }
            }
            #expect(seen == 20 && pages > 1)
        }
    }

    @Test func namesThatDevicesKeepForThemselvesAreRefused() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            for name in [".versions", ".conflicts", ".concord-incoming"] {
                let answer = try await device.commit([device.directory(name)])
                #expect(answer.results[0].refusal?.code == .malformed, "\(name)")
            }
            #expect(try await device.commit([device.directory(".other")]).results[0].isDone)
        }
    }

    // MARK: Positions that the hub has not given

    @Test func onlyAnotherJournalBeginsAnEpoch() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("a", bytes("a"))
            let first = try await failure { [device] in
                try await device.changes(after: 999_999_999)
            }
            // The ledger may have been rolled back before this start, so this is accepted once.
            #expect(first.code == .volumeEpoch)
            let epoch = try #require(first.epoch)
            device.volume.epoch = epoch
            // This epoch began in this run, so no device can have read more of it than there is.
            for after in [UInt64(999_999_999), 2, UInt64(Int64.max)] {
                let lie = try await failure { [device] in try await device.changes(after: after) }
                #expect(lie.code == .copied)
            }
            let run = try await failure { [device] in
                try await device.changes(after: 1, run: .random())
            }
            #expect(run.code == .copied)
            let commit = try await failure { [device] in
                try await device.commit([], cursor: 999_999_999)
            }
            #expect(commit.code == .copied)
            #expect(try await device.changes().volumeEpoch == epoch)
        }
    }

    @Test("a reader begins no epoch of a volume") func readersBeginNoEpoch() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            try await anna.change(.add, "bert", .reader)
            bert.volume = try await bert.open("team", of: "anna")
            let lie = try await failure { [bert] in try await bert.changes(after: 999_999_999) }
            #expect(lie.code == .copied)
            #expect(try await anna.changes().volumeEpoch == anna.volume.epoch)
        }
    }

    // MARK: Fairness

    @Test func muchWorkIsSeveralTransactions() async throws {
        try await RunningHub.with { hub in
            var (device, other) = (try await hub.device(), try await hub.device())
            let directory = Identifier.random()
            try await device.commit([device.directory("d", id: directory)])
            for start in stride(from: 0, to: 1500, by: 500) {
                try await device.commit(
                    (start..<start + 500).map { index in
                        let creation = Creation(
                            kind: .directory, placement: device.placement("\(index)", in: directory)
                        )
                        return device.entry(.random(), .create(creation))
                    })
            }
            let before = hub.hub.metrics.transactions.count
            // The device has seen nothing of the directory, so each deletion announces all of its
            // items again.
            let deletes = (0..<40).map { _ in other.entry(directory, .delete(current: nil)) }
            let answer = try await other.commit(deletes)
            #expect(answer.results.map(\.number) == deletes.map(\.number))
            #expect(answer.results.allSatisfy { $0.verdict == .overruled(.unseenChange) })
            #expect(hub.hub.metrics.transactions.count - before > 4)
            // The last deletion, too, has announced everything again, after the one before.
            var (after, told) = (answer.results[38].sequence, Set<Identifier>())
            while after < answer.head {
                let page = try await other.changes(after: after)
                for case .item(let item) in page.changes { told.insert(item.id) }
                after = page.next
            }
            #expect(told.count == 1501 && after == answer.results[39].sequence)
            // Sending the commit again returns the same results, because nothing is done twice.
            #expect(try await other.commit(deletes).results == answer.results)
            #expect(try await hub.administration().check().faults == [])
        }
    }
}

extension OperationResult {
    var isDone: Bool { verdict == .applied }
}
