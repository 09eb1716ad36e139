import Coordination
import Foundation
import HubProtocol
import Model
import Support
import Synchronization
import Testing

@testable import Hub

extension TestDevice {
    func ask(_ steps: [GrantRequest.Step], process: Identifier? = nil) async throws -> GrantAnswer {
        let request = GrantRequest(steps: steps)
        let reply = try await Wire.send(
            path(.grants), [UInt8](try JSONEncoder().encode(request)),
            token: token, type: ContentType.json,
            headers: process.map { [HubHeader.process: $0.description] } ?? [:])
        let answer = try JSONDecoder().decode(GrantAnswer.self, from: Data(try reply.checked()))
        #expect(answer.objection(to: request) == nil)
        return answer
    }

    func ask(
        _ kind: GrantRequest.Kind, _ item: Identifier, _ number: UInt64,
        _ token: UInt64? = nil, process: Identifier? = nil
    ) async throws -> GrantAnswer.Result {
        let step = GrantRequest.Step(kind, item, number: number, token: token)
        return try await ask([step], process: process).results[0]
    }
}

/// Documents that only one device may edit, as devices ask a hub for them.
struct GrantRouteTests {
    /// Runs `body` with anna's device, another one of an editor, and a document.
    private func with(
        _ body: (RunningHub, _ anna: TestDevice, _ bert: TestDevice, Identifier) async throws
            -> Void
    ) async throws {
        try await RunningHub.with { hub in
            var anna = try await hub.device(of: "anna", volume: "team")
            var bert = try await hub.device(of: "bert")
            try await anna.change(.add, "bert", .editor)
            bert.volume = try await bert.open("team", of: "anna")
            let item = Identifier.random()
            try await anna.upload([bytes("x")])
            try await anna.commit([anna.creation("x", bytes("x"), id: item)])
            try await body(hub, anna, bert, item)
        }
    }

    @Test("one device has a document, and others learn which one") func oneDevice() async throws {
        try await with { _, anna, bert, item in
            let token = try #require(try await anna.ask(.take, item, 1).token)
            let refused = try await bert.ask(.take, item, 1)
            #expect(refused.token == nil && refused.user == "anna" && refused.device == anna.id)
            #expect(try await anna.ask(.renew, item, 2, token).token == token)
            #expect(try await bert.ask(.renew, item, 2, token).token == nil)
            #expect(try await bert.ask(.release, item, 3, token).token == nil)
            #expect(try await bert.ask(.take, item, 4).token == nil)
            // All devices read up to the token.
            #expect(try await bert.changes().next == token)
            let both = try await anna.ask([
                .init(.release, item, number: 3, token: token),
                .init(.take, .random(), number: 4),
            ])
            #expect(both.results.map(\.number) == [3, 4])
            // The volume has no such document, and nothing is kept about it.
            #expect(both.results[1].token == nil && both.results[1].device == nil)
            #expect(try await bert.ask(.take, item, 5).token == token + 1)
        }
    }

    @Test("a new process goes on with the grant of an earlier one") func processes() async throws {
        try await with { _, anna, bert, item in
            let (old, new) = (Identifier.random(), Identifier.random())
            let token = try #require(try await anna.ask(.take, item, 7, process: old).token)
            #expect(try await bert.ask(.resume, item, 1, token).token == nil)
            #expect(try await anna.ask(.resume, item, 1, token + 1, process: new).token == nil)
            #expect(try await anna.ask(.resume, item, 2, token, process: new).token == token)
            #expect(try await anna.ask(.renew, item, 8, token, process: old).token == nil)
            _ = try await anna.ask(.release, item, 9, token, process: old)
            #expect(try await bert.ask(.take, item, 2).token == nil)
            _ = try await anna.ask(.release, item, 3, token, process: new)
            #expect(try await bert.ask(.take, item, 3).token != nil)
            #expect(try await anna.ask(.resume, item, 4, token, process: new).token == nil)
        }
    }

    @Test("grants end when a device is signed out, and when a member's role changes")
    func authority() async throws {
        try await with { hub, anna, bert, item in
            #expect(try await bert.ask(.take, item, 1).token != nil)
            try await anna.change(.role, "bert", .reader)
            #expect(try await anna.ask(.take, item, 1).token != nil)
            let refused = try await failure { try await bert.ask(.take, item, 2) }
            #expect(refused.code == .forbidden)
            try await anna.change(.remove, "bert")
            let gone = try await failure { try await bert.ask(.take, item, 3) }
            #expect(gone.code == .notFound)
            var other = try await hub.device(of: "anna")
            other.volume = anna.volume
            #expect(try await other.ask(.take, item, 1).token == nil)
            let url = hub.url + Routes.device(anna.id)
            let reply = try await Wire.send(url, method: "DELETE", nil, token: other.token)
            #expect(reply.status == 200)
            #expect(try await other.ask(.take, item, 2).token != nil)
        }
    }

    @Test("grants end when the hub's operator revokes a device or changes a member")
    func administration() async throws {
        try await with { hub, anna, bert, item in
            let administration = try hub.administration()
            #expect(try await bert.ask(.take, item, 1).token != nil)
            try await administration.change(
                MemberRequest(.role, "bert", role: .reader), in: "team", owner: "anna")
            #expect(try await anna.ask(.take, item, 1).token != nil)
            var other = try await hub.device(of: "anna")
            other.volume = anna.volume
            _ = try await administration.revoke("\(anna.id)")
            #expect(try await other.ask(.take, item, 1).token != nil)
            try administration.close()
        }
    }

    @Test("a hub does not watch the grants of deleted documents") func deleted() async throws {
        try await with { hub, anna, bert, item in
            func watched() -> Int { hub.hub.grants.watch.withLock { $0.count } }
            #expect(try await anna.ask(.take, item, 1).token != nil)
            var device = anna
            let current = try await hub.hub.ledger.read { [volume = anna.volume.id] in
                try $0.item(item, in: volume)?.current?.id
            }
            try await device.commit([device.entry(item, .delete(current: current))])
            #expect(try await bert.ask(.take, item, 1).token == nil)
            #expect(watched() == 0)
            try await device.commit([device.entry(item, .restore)])
            #expect(try await bert.ask(.take, item, 2).token == nil)
            #expect(watched() == 1)
        }
    }

    @Test("requests that make no sense are refused") func hostile() async throws {
        try await with { _, anna, _, item in
            let step = GrantRequest.Step(.take, item, number: 1)
            for steps in [
                [], Array(repeating: step, count: HubLimits.grants + 1),
                [.init(.take, .root, number: 1)], [.init(.take, item, number: 1, token: 1)],
                [.init(.renew, item, number: 1)], [.init(.take, item, number: 1 << 63)],
                [.init(.release, item, number: 1, token: .max)],
            ] {
                let refused = try await failure { try await anna.ask(steps) }
                #expect(refused.code == .malformed && refused.message.hasSuffix("."), "\(steps)")
            }
        }
    }

    @Test("two hubs of one ledger agree, and each waits by its own clock") func hubs() async throws
    {
        try await with { hub, anna, bert, item in
            let first = Mutex(Int64(0))
            let second = Mutex(Int64(1) << 50)
            let volume = anna.volume.id
            let (ledger, devices) = (hub.hub.ledger, hub.hub.devices)
            let one = Grants(
                ledger, Feeds(), RoundRobinLock(), duration: LeaseTerms.duration, clock: { 1 },
                uptime: { first.withLock { $0 } })
            let two = Grants(
                ledger, Feeds(), RoundRobinLock(), duration: LeaseTerms.duration, clock: { 2 },
                uptime: { second.withLock { $0 } })
            func take(
                _ hub: Grants, _ device: TestDevice, _ number: UInt64
            ) async throws -> UInt64? {
                let caller = try await devices.caller(token: device.token)
                let request = GrantRequest(steps: [.init(.take, item, number: number)])
                return try await hub.answer(request, in: volume, from: nil, for: caller)
                    .results[0].token
            }
            let token = try #require(try await take(one, anna, 1))
            #expect(try await take(two, bert, 1) == nil)
            second.withLock { $0 += LeaseTerms.duration - 1 }
            #expect(try await take(two, bert, 2) == nil)
            #expect(try await take(one, bert, 3) == nil)
            second.withLock { $0 += 1 }
            #expect(try await take(two, bert, 4) == token + 1)
            #expect(try await take(one, anna, 2) == nil)
        }
    }
}
