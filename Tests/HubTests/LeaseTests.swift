import Foundation
import HubProtocol
import Model
import Support
import Testing

@testable import Hub

/// Which documents are open on which devices, as the hub is told and tells others.
struct LeaseTests {
    private func tell(
        _ device: TestDevice, _ number: UInt64, _ items: [Identifier],
        use: DocumentUse = .edits, age: Int64 = 0, process: Identifier? = nil
    ) async throws {
        let request = LeaseRequest(
            number: number,
            documents: items.map { LeaseRequest.Document(item: $0, use: use, age: age) })
        let reply = try await Wire.send(
            device.path(.leases), [UInt8](try JSONEncoder().encode(request)), token: device.token,
            type: ContentType.json,
            headers: process.map { [HubHeader.process: $0.description] } ?? [:])
        _ = try reply.checked()
    }

    private func leases(_ device: TestDevice) async throws -> LeaseList {
        try await Wire.get(device.path(.leases), token: device.token)
    }

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

    @Test("others hear at once of what is opened and closed, and see who has it")
    func openAndClosed() async throws {
        try await with { _, anna, bert, item in
            try await FeedTests().listen(bert) { lines in
                try await lines.skip(to: "that nothing is open") { $0.leases == 0 }
                try await tell(anna, 1, [item], age: 5_000_000_000)
                var said: UInt64 = 0
                try await lines.skip(to: "that something is open") {
                    said = $0.leases ?? 0
                    return said != 0
                }
                let list = try await leases(bert)
                #expect(list.objection == nil && list.revision == said)
                let lease = try #require(list.leases.first)
                #expect(lease.item == item && lease.device == anna.id && lease.use == .edits)
                #expect(lease.user == "anna" && lease.deviceName == "device")
                #expect(lease.age >= 5_000_000_000)
                #expect(try await leases(anna).leases.isEmpty)
                try await tell(anna, 2, [item], use: .shows)
                try await lines.skip(to: "another use") { $0.leases != said && $0.leases != nil }
                #expect(try await leases(bert).leases.map(\.use) == [.shows])
                try await tell(anna, 3, [])
                try await lines.skip(to: "the end") { $0.leases == 0 }
                #expect(try await leases(bert) == LeaseList(revision: 0, leases: []))
            }
        }
    }

    @Test("a lease ends after 60 seconds, whatever the wall clock says, unless it is told again")
    func expiry() async throws {
        try await with { hub, anna, bert, item in
            try await tell(anna, 1, [item])
            hub.advance(seconds: 100_000)
            hub.hub.leases.apply(.woken)
            #expect(try await leases(bert).leases.count == 1)
            hub.advanceUptime(seconds: 59)
            hub.hub.leases.apply(.woken)
            try await tell(anna, 2, [item])
            hub.advanceUptime(seconds: 59)
            hub.hub.leases.apply(.woken)
            #expect(try await leases(bert).leases.count == 1)
            try await FeedTests().listen(bert) { lines in
                try await lines.skip(to: "that something is open") { ($0.leases ?? 0) != 0 }
                hub.advanceUptime(seconds: 2)
                try await lines.skip(to: "the end") { $0.leases == 0 }
            }
            #expect(hub.hub.leases.isEmpty)
        }
    }

    @Test("a request that arrives late changes nothing; that of a new process counts")
    func order() async throws {
        try await with { _, anna, bert, item in
            let (old, new) = (Identifier.random(), Identifier.random())
            try await tell(anna, 7, [item], process: old)
            try await tell(anna, 8, [], process: old)
            try await tell(anna, 7, [item], process: old)
            #expect(try await leases(bert).leases.isEmpty)
            try await tell(anna, 1, [item], process: new)
            #expect(try await leases(bert).leases.count == 1)
        }
    }

    @Test("only what is in the volume can be told, and only members see it")
    func otherVolumes() async throws {
        try await with { hub, anna, bert, item in
            var hidden = try await hub.device(of: "anna", volume: "private")
            let secret = Identifier.random()
            try await hidden.upload([bytes("s")])
            try await hidden.commit([hidden.creation("s", bytes("s"), id: secret)])
            try await tell(bert, 1, [secret, .random(), item])
            #expect(try await leases(anna).leases.map(\.item) == [item])
            var thief = bert
            thief.volume.id = hidden.volume.id
            let refused = try await failure { [thief] in try await tell(thief, 1, [secret]) }
            #expect(refused.code == .notFound)
            let unseen = try await failure { [thief] in try await leases(thief) }
            #expect(unseen.code == .notFound)
            #expect(try await leases(hidden).leases.isEmpty)
        }
    }

    @Test("a reader tells what it shows, but not that it edits") func readers() async throws {
        try await with { _, anna, bert, item in
            try await anna.change(.role, "bert", .reader)
            let refused = try await failure { try await tell(bert, 1, [item]) }
            #expect(refused.code == .forbidden)
            try await tell(bert, 1, [item], use: .shows)
            #expect(try await leases(anna).leases.map(\.use) == [.shows])
            try await tell(anna, 1, [item])
            #expect(try await leases(bert).leases.map(\.user) == ["anna"])
        }
    }

    @Test("leases end with the member, the role, the token and the device")
    func endings() async throws {
        try await with { hub, anna, bert, item in
            let administration = try hub.administration()
            func ends(_ body: () async throws -> Void) async throws {
                try await tell(bert, 1, [item], process: .random())
                #expect(try await leases(anna).leases.count == 1)
                try await FeedTests().listen(anna) { lines in
                    try await lines.skip(to: "that something is open") { ($0.leases ?? 0) != 0 }
                    try await body()
                }
                try await wait(for: "the end") { hub.hub.leases.isEmpty }
                #expect(try await leases(anna).leases.isEmpty)
            }
            try await ends { try await anna.change(.role, "bert", .editor) }
            try await ends { try await anna.change(.remove, "bert") }
            try await anna.change(.add, "bert", .editor)
            try await ends {
                try await administration.change(
                    MemberRequest(.remove, "bert"), in: "team", owner: "anna")
            }
            try await anna.change(.add, "bert", .editor)
            try await ends { _ = try await administration.revoke(bert.id.description) }
            try administration.close()
        }
    }

    private func wait(for what: String, _ isTrue: () -> Bool) async throws {
        for _ in 0..<10_000 {
            if isTrue() { return }
            try await Task.sleep(for: .milliseconds(2))
        }
        throw SupportError("waited in vain for \(what)")
    }

    @Test("hostile numbers and names are refused, and an account cannot fill the hub")
    func bounds() async throws {
        try await with { hub, anna, bert, item in
            for body in [
                "", "{}", "[]", "{\"number\":-1,\"documents\":[]}",
                "{\"number\":18446744073709551615,\"documents\":[]}",
                "{\"number\":1,\"documents\":[{\"item\":\"zz\",\"use\":\"edits\",\"age\":0}]}",
                "{\"number\":1,\"documents\":[{\"item\":\"\(item)\",\"use\":\"eats\",\"age\":0}]}",
                "{\"number\":1,\"documents\":[{\"item\":\"\(item)\",\"use\":\"edits\","
                    + "\"age\":-1}]}",
                "{\"number\":1,\"documents\":[{\"item\":\"\(item)\",\"use\":\"edits\","
                    + "\"age\":9223372036854775807}]}",
            ] {
                let reply = try await Wire.send(
                    bert.path(.leases), bytes(body), token: bert.token, type: ContentType.json)
                #expect(reply.status == 400, "\(body): \(reply.status)")
            }
            let twice = try await failure { try await tell(bert, 1, [item, item]) }
            #expect(twice.code == .malformed)
            let many = (0...HubLimits.leases).map { _ in Identifier.random() }
            let tooMany = try await failure { try await tell(bert, 1, many) }
            #expect(tooMany.code == .malformed)
            #expect(hub.hub.leases.isEmpty)
            // Telling of nothing takes no memory.
            try await tell(bert, 1, [])
            try await tell(bert, 2, [.random()])
            #expect(hub.hub.leases.isEmpty)
            try await tell(anna, 1, [item])
            #expect(try await leases(bert).leases.count == 1)
        }
    }
}
