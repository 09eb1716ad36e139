import Foundation
import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

struct CommitTests {
    @Test func aSaveIsSeenByAnotherDevice() async throws {
        try await RunningHub.with { hub in
            var a = try await hub.device()
            let b = try await hub.device()
            #expect(a.volume.id == b.volume.id)
            #expect(a.volume.created && !b.volume.created)
            let result = try await a.save("a.txt", bytes("hello"))
            #expect(result.verdict == .applied)
            let changes = try await b.changes()
            guard case .item(let item)? = changes.changes.first else {
                throw SupportError("nothing came")
            }
            #expect(item.name == "a.txt")
            #expect(item.current?.sequence == result.sequence)
            #expect(item.current?.moment.device == a.id)
            #expect(changes.head == result.sequence && changes.next == result.sequence)
            #expect(changes.acknowledged == 0)
            #expect(try await a.changes().acknowledged == 1)
            let frames = try await b.read([b.id(of: bytes("hello"))])
            #expect(frames.first?.bytes == bytes("hello"))
        }
    }

    @Test func aBatchThatComesTwiceIsDoneOnce() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("one"), bytes("two")])
            let batch = [
                device.creation("one", bytes("one")), device.creation("two", bytes("two")),
            ]
            let first = try await device.commit(batch)
            // The answer was lost, and the device has a new operation in the meantime.
            var again = batch
            again.append(device.directory("three"))
            for index in again.indices { again[index].time += 5 }
            let second = try await device.commit(again)
            #expect(second.results.prefix(2) == first.results[...])
            #expect(second.head == 3)
            #expect(try await device.changes().changes.count == 3)
            let third = try await device.commit(again)
            #expect(third.results == second.results)
            #expect(third.head == 3)
        }
    }

    @Test func aGapIsRefusedWhole() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            _ = device.directory("lost")
            let entry = device.directory("next")
            let gap = try await failure { try await device.commit([entry]) }
            #expect(gap.code == .gap && gap.expected == 1)
            #expect(try await device.changes().head == 0)
        }
    }

    @Test func aCopiedDeviceIsToldApart() async throws {
        try await RunningHub.with { hub in
            var one = try await hub.device()
            var copy = one
            try await one.commit([one.directory("mine")])
            let copied = try await failure { [copy] in
                var copy = copy
                return try await copy.commit([copy.directory("yours")])
            }
            #expect(copied.code == .copied)
            let request = SplitRequest(device: .random(), deviceName: "copy")
            let answer: EnrolAnswer = try await Wire.post(
                hub.url + Routes.selfSplit, request, token: copy.token)
            (copy.token, copy.id, copy.epoch) = (answer.token, answer.device, answer.epoch)
            try await copy.commit([copy.directory("yours")])
            // The original device is not affected.
            try await one.commit([one.directory("more")])
            #expect(try await one.changes().changes.count == 3)
        }
    }

    @Test func anOldEpochIsRefused() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.commit([device.directory("a")])
            let answer = try await Wire.send(
                hub.url + Routes.selfEpoch, nil, token: device.token)
            let epoch: EpochAnswer = try answer.decoded()
            #expect(epoch.epoch == 2)
            let old = try await failure { [device] in
                var device = device
                return try await device.commit([device.directory("b")])
            }
            #expect(old.code == .deviceEpoch && old.deviceEpoch == 2)
            #expect(try await device.changes().acknowledged == 0)
            (device.epoch, device.number) = (2, 1)
            try await device.commit([device.directory("b")])
            #expect(try await device.changes().changes.count == 2)
        }
    }

    @Test func missingChunksAreNamed() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("there")])
            let batch = [
                device.creation("there", bytes("there")), device.creation("not", bytes("not")),
            ]
            let missing = try await failure { try await device.commit(batch) }
            #expect(missing.code == .missing)
            #expect(missing.missing?.ids == [device.id(of: bytes("not"))])
            #expect(try await device.changes().head == 0)
            try await device.upload([bytes("not")])
            #expect(try await device.commit(batch).head == 2)
        }
    }

    @Test func whatNoItemMayBeIsRefusedAlone() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            var batch: [OperationEntry] = []
            for name in ["", ".", "..", "a/b", "nul\0", String(repeating: "n", count: 256)] {
                batch.append(device.directory(name))
            }
            batch.append(device.entry(.root, .delete(current: nil)))
            batch.append(device.entry(.random(), .attribute("owner", [1])))
            for mode: [UInt8] in [[0xFF, 0xFF], [0x09, 0xED], [0x05, 0xED], [0x04, 0]] {
                batch.append(device.entry(.random(), .attribute("mode", mode)))
            }
            for name in ["security.capability", "trusted.x", "system.posix_acl_access"] {
                batch.append(device.entry(.random(), .attribute("x:" + name, [1])))
            }
            let itself = Identifier.random()
            batch.append(
                device.entry(
                    itself,
                    .create(
                        Creation(
                            kind: .directory, placement: device.placement("me", in: itself)))))
            batch.append(
                device.entry(
                    .random(), .create(Creation(kind: .symlink, placement: device.placement("l")))))
            batch.append(
                device.entry(
                    .random(), .create(Creation(kind: .package, placement: device.placement("f")))))
            for size: UInt64 in [(1 << 63) - 1, HubLimits.documentBytes + 1] {
                var huge = device.creation("huge", bytes("x"))
                guard case .create(var creation) = huge.change else { continue }
                creation.revision?.size = size
                huge.change = .create(creation)
                batch.append(huge)
            }
            var half = device.creation("half", bytes("x"))
            half.content = nil
            batch.append(half)
            let answer = try await device.commit(batch + [device.directory("good")])
            #expect(answer.results.dropLast().allSatisfy { $0.refusal?.code == .malformed })
            #expect(answer.results.last?.verdict == .applied)
            #expect(answer.head == 1)
            // The refused operations are complete and are not sent again.
            #expect(try await device.changes().acknowledged == UInt64(batch.count + 1))
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func aGroupIsAppliedWholeOrNotAtAll() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            var batch = [
                device.creation("a", bytes("x"), group: 1),
                device.creation("b/c", bytes("x"), group: 1),
                device.creation("d", bytes("x"), group: 2),
                device.creation("e", bytes("x"), group: 2),
            ]
            batch.append(device.directory("f"))
            let answer = try await device.commit(batch)
            #expect(
                answer.results.map { $0.refusal?.code } == [.group, .malformed, nil, nil, nil])
            #expect(try await device.changes().changes.count == 3)
        }
    }

    @Test func aQuotaHoldsBackContentsAlone() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device(of: "berta", quota: 100_000)
            let (large, next) = ([UInt8](repeating: 1, count: 60_000), bytes("abc"))
            let another = [UInt8](repeating: 2, count: 50_000)
            try await device.upload([large, next, another])
            let answer = try await device.commit([
                device.creation("1", large), device.creation("2", another),
                device.directory("d"), device.creation("3", next),
            ])
            #expect(answer.results.map { $0.refusal?.code } == [nil, .quota, nil, nil])
            try await hub.administration().setQuota(of: "berta", 200_000)
            #expect(try await device.save("2", another).verdict == .applied)
        }
    }

    @Test func commitsThatMeetShareTransactions() async throws {
        try await RunningHub.with { hub in
            var devices: [TestDevice] = []
            for _ in 0..<8 { devices.append(try await hub.device()) }
            let before = hub.hub.metrics.transactions.count
            try await withThrowingTaskGroup(of: Void.self) { group in
                for device in devices {
                    group.addTask {
                        var device = device
                        for index in 0..<20 {
                            try await device.commit([device.directory("\(device.id)-\(index)")])
                        }
                    }
                }
                try await group.waitForAll()
            }
            let changes = try await devices[0].changes()
            #expect(changes.head == 160)
            #expect(changes.changes.count == 160)
            #expect(hub.hub.metrics.transactions.count - before < 160)
        }
    }

    @Test func theHubsClockIsTheLatestTimeThereIs() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            var entry = device.creation("future", bytes("x"))
            entry.time = .max
            guard case .create(var creation) = entry.change else { return }
            creation.revision?.moment = Moment(time: .max, device: .random())
            entry.change = .create(creation)
            let answer = try await device.commit([entry])
            guard case .item(let item)? = try await device.changes().changes.first else { return }
            #expect(item.placedAt.time <= answer.received)
            let moment = try #require(item.current?.moment)
            #expect(moment.time <= answer.received)
            #expect(moment.device == device.id)
        }
    }

    @Test func anIdIsNotTwoVersions() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x"), bytes("y")])
            let id = Identifier.random()
            func creation(_ text: String) -> Change {
                .create(
                    Creation(
                        kind: .file, placement: device.placement(text),
                        revision: device.revision(of: bytes(text), id: id)))
            }
            let (x, y) = (creation("x"), creation("y"))
            let answer = try await device.commit([
                device.entry(.random(), x, bytes: bytes("x")),
                device.entry(.random(), y, bytes: bytes("y")),
            ])
            #expect(answer.results.map { $0.refusal?.code } == [nil, .malformed])
            #expect(try await hub.administration().check().faults == [])
        }
    }
}
