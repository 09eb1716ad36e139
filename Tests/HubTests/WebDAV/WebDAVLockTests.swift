import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub
@testable import HubWebDAV

/// Locks of programs that use WebDAV.
struct WebDAVLockTests {
    private let base = "/dav/Documents/"

    private static func body(_ scope: String = "exclusive") -> [UInt8] {
        bytes(
            """
            <lockinfo xmlns="DAV:"><lockscope><\(scope)/></lockscope><locktype><write/></locktype>
            <owner><href>me</href></owner></lockinfo>
            """)
    }

    private func lock(
        _ client: DAVClient, _ path: String, _ scope: String = "exclusive",
        _ more: [String: String] = [:]
    ) async throws -> (status: Int, token: String) {
        let answer = try await client.send("LOCK", path, Self.body(scope), more)
        return (answer.status, answer["Lock-Token"])
    }

    private func state(_ hub: RunningHub, _ name: String) async throws -> ItemState {
        let device = try await hub.device()
        for case .item(let item) in try await device.changes().changes where item.name == name {
            return item
        }
        throw SupportError("there is no \(name)")
    }

    @Test func aLockedDocumentIsChangedOnlyWithTheToken() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let (client, other) = (try await hub.client(), try await hub.client(named: "Tablet"))
            let path = base + "a"
            #expect(try await client.status("PUT", path, bytes("1")) == 201)
            let (status, token) = try await lock(client, path)
            #expect(status == 200 && token.hasPrefix("<urn:uuid:"))
            let held = ["If": "(\(token))"]
            for program in [client, other] {
                let refused = try await program.send("PUT", path, bytes("2"))
                #expect(refused.status == 423 && refused.text.contains("lock-token-submitted"))
                #expect(refused.text.contains("<D:href>/dav/Documents/a</D:href>"))
                #expect(try await program.status("DELETE", path) == 423)
                #expect(
                    try await program.status("MOVE", path, nil, ["Destination": base + "b"]) == 423)
                #expect(try await program.status("GET", path) == 200)
                #expect(
                    try await program.status("COPY", path, nil, ["Destination": base + "b"]) / 100
                        == 2)
                #expect(
                    try await program.status("MOVE", base + "b", nil, ["Destination": path]) == 423)
                #expect(try await lock(program, path).status == 423)
                #expect(try await lock(program, path, "shared").status == 423)
            }
            #expect(try await client.status("PUT", path, bytes("2"), held) == 204)
            let shown = try await client.list(path, depth: "0")
            #expect(shown.text.contains("<D:lockroot><D:href>/dav/Documents/a</D:href>"))
            #expect(shown.text.contains(token.dropFirst().dropLast()))
            #expect(try await client.status("UNLOCK", path, nil, ["Lock-Token": "<urn:x>"]) == 409)
            #expect(try await client.status("UNLOCK", path) == 400)
            #expect(try await client.status("UNLOCK", path, nil, ["Lock-Token": token]) == 204)
            #expect(try await client.status("UNLOCK", path, nil, ["Lock-Token": token]) == 409)
            #expect(try await other.status("PUT", path, bytes("3")) == 204)
            #expect(try await client.status("PUT", path, bytes("2"), held) == 412)
        }
    }

    /// Neither is a device held up by a lock, nor is anything lost that one of the two saves.
    @Test func aDeviceIsNotHeldUpAndBothVersionsAreKept() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let client = try await hub.client()
            let path = base + "a"
            #expect(try await client.status("PUT", path, bytes("one")) == 201)
            let item = try await state(hub, "a")
            let first = try #require(item.current)
            let token = try await lock(client, path).token
            try await device.upload([bytes("device")])
            let edit = device.revision(of: bytes("device"), parents: [first.id])
            let result = try await device.commit([
                device.entry(item.id, .edit(edit), bytes: bytes("device"))
            ]).results[0]
            #expect(result.verdict == .applied)
            let stale = ["If": "(\(token))", "If-Match": "\"\(first.id)\""]
            #expect(try await client.status("PUT", path, bytes("client"), stale) == 412)
            let saved = try await client.send("PUT", path, bytes("client"), ["If": "(\(token))"])
            #expect(saved.status == 204)
            var now = try await state(hub, "a")
            #expect(now.live.count == 2 && now.conflicts.map(\.id) == [edit.id])
            #expect(saved["ETag"] == now.tag)
            #expect(try await client.send("GET", path).bytes == bytes("client"))
            // What the program has read is what its next save follows.
            try await device.upload([bytes("again")])
            let again = device.revision(
                of: bytes("again"), parents: try #require(now.current).parents + [now.current!.id])
            try await device.commit([device.entry(item.id, .edit(again), bytes: bytes("again"))])
            #expect(try await client.send("GET", path).bytes == bytes("again"))
            #expect(
                try await client.status("PUT", path, bytes("last"), ["If": "(\(token))"]) == 204)
            now = try await state(hub, "a")
            #expect(now.current?.parents == [again.id] && now.conflicts.map(\.id) == [edit.id])
        }
    }

    @Test func anotherUsersTokenIsNoUse() async throws {
        try await RunningHub.with { hub in
            let owner = try await hub.device()
            let (client, other) = (try await hub.client(), try await hub.client("bert"))
            let add = MemberRequest(.add, "bert", role: .editor)
            let _: MemberList = try await Wire.post(owner.path(.members), add, token: owner.token)
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            let token = try await lock(client, base + "a").token
            let theirs = "/dav/anna@Documents/a"
            #expect(try await other.status("PUT", theirs, bytes("2"), ["If": "(\(token))"]) == 423)
            #expect(try await other.status("UNLOCK", theirs, nil, ["Lock-Token": token]) == 403)
            let shown = try await other.list(theirs, depth: "0")
            #expect(shown.text.contains("<D:lockroot><D:href>/dav/anna%40Documents/a</D:href>"))
            let role = MemberRequest(.role, "bert", role: .reader)
            let _: MemberList = try await Wire.post(owner.path(.members), role, token: owner.token)
            #expect(try await lock(other, "/dav/anna@Documents/b").status == 403)
        }
    }

    @Test func aLockEndsByItsTimeAndIsRefreshed() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            let path = base + "a"
            #expect(try await client.status("PUT", path, bytes("1")) == 201)
            let answer = try await client.send("LOCK", path, Self.body(), ["Timeout": "Second-100"])
            #expect(answer.text.contains("<D:timeout>Second-100</D:timeout>"))
            let held = ["If": "(\(answer["Lock-Token"]))", "Timeout": "Infinite, Second-5"]
            hub.advance(seconds: 90)
            let longer = try await client.send("LOCK", path, nil, held)
            #expect(longer.status == 200 && longer["Lock-Token"].isEmpty)
            #expect(longer.text.contains("<D:timeout>Second-3600</D:timeout>"))
            hub.advance(seconds: 3500)
            #expect(try await client.status("PUT", path, bytes("2")) == 423)
            hub.advance(seconds: 101)
            #expect(try await client.status("PUT", path, bytes("2")) == 204)
            #expect(try await client.status("LOCK", path, nil, held) == 412)
            #expect(try await client.status("LOCK", path) == 412)
        }
    }

    @Test func aLockOfAFolderCoversWhatIsInIt() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            for folder in ["f", "f/g", "h"] {
                #expect(try await client.status("MKCOL", base + folder) == 201)
            }
            #expect(try await client.status("PUT", base + "f/g/a", bytes("1")) == 201)
            let deep = try await lock(client, base + "f").token
            for (method, path) in [
                ("PUT", "f/g/a"), ("PUT", "f/new"), ("MKCOL", "f/g/new"), ("DELETE", "f/g/a"),
                ("DELETE", "f"), ("LOCK", "f/g/a"), ("LOCK", "f/other"),
            ] {
                let body = method == "LOCK" ? Self.body() : method == "PUT" ? bytes("2") : nil
                #expect(
                    try await client.status(method, base + path, body) == 423, "\(method) \(path)")
            }
            let tagged = ["If": "<\(hub.url)\(base)f> (\(deep))"]
            #expect(try await client.status("PUT", base + "f/g/a", bytes("2"), tagged) == 204)
            #expect(try await client.status("PUT", base + "f/new", bytes("2"), tagged) == 201)
            #expect(
                try await client.list(base + "f/g").text.components(separatedBy: "<D:activelock>")
                    .count == 3)
            #expect(
                try await client.status("UNLOCK", base + "f/g/a", nil, ["Lock-Token": deep]) == 204)
            // A flat lock covers the list of members only.
            let flat = try await lock(client, base + "f", "exclusive", ["Depth": "0"]).token
            #expect(try await client.status("PUT", base + "f/g/a", bytes("3")) == 204)
            #expect(try await client.status("PUT", base + "f/new", bytes("3")) == 204)
            #expect(try await client.status("PUT", base + "f/newer", bytes("3")) == 423)
            #expect(try await client.status("DELETE", base + "f/new") == 423)
            #expect(try await client.status("UNLOCK", base + "f", nil, ["Lock-Token": flat]) == 204)
            let inner = try await lock(client, base + "f/g/a").token
            #expect(try await client.status("DELETE", base + "f") == 423)
            #expect(
                try await client.status("MOVE", base + "f", nil, ["Destination": base + "i"]) == 423
            )
            #expect(try await lock(client, base + "f").status == 423)
            #expect(try await lock(client, base + "f", "exclusive", ["Depth": "0"]).status == 200)
            #expect(inner.hasPrefix("<urn:"))
        }
    }

    @Test func sharedLocksStandTogether() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            let (one, two) = (
                try await lock(client, base + "a", "shared"),
                try await lock(client, base + "a", "shared")
            )
            #expect(one.status == 200 && two.status == 200 && one.token != two.token)
            #expect(try await lock(client, base + "a").status == 423)
            #expect(try await client.status("PUT", base + "a", bytes("2")) == 423)
            for token in [one.token, two.token] {
                #expect(
                    try await client.status("PUT", base + "a", bytes("2"), ["If": "(\(token))"])
                        == 204)
            }
        }
    }

    @Test func aNameIsLockedBeforeThereIsADocument() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            let (status, token) = try await lock(client, base + "new")
            #expect(status == 201)
            let empty = try await client.send("GET", base + "new")
            #expect(empty.status == 200 && empty.bytes.isEmpty)
            #expect(try await client.status("PUT", base + "new", bytes("1")) == 423)
            #expect(
                try await client.status("PUT", base + "new", bytes("1"), ["If": "(\(token))"])
                    == 204)
            #expect(try await lock(client, base + "x/new").status == 409)
            #expect(try await lock(client, "/dav/").status == 403)
            #expect(try await lock(client, base).status == 423)
            let flat = try await lock(client, base, "exclusive", ["Depth": "0"])
            #expect(flat.status == 200)
            #expect(try await client.status("PUT", base + "other", bytes("1")) == 423)
        }
    }

    @Test func aLockStaysWhereItWasAndEndsWithItsDocument() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            for name in ["a", "b"] {
                #expect(try await client.status("PUT", base + name, bytes(name)) == 201)
            }
            let a = ["If": "(\(try await lock(client, base + "a").token))"]
            let to = ["Destination": base + "c"].merging(a) { $1 }
            #expect(try await client.status("MOVE", base + "a", nil, to) == 201)
            #expect(try await client.status("PUT", base + "c", bytes("2")) == 204)
            let b = ["If": "(\(try await lock(client, base + "b").token))"]
            #expect(try await client.status("DELETE", base + "b", nil, b) == 204)
            #expect(try await client.status("PUT", base + "b", bytes("2")) == 201)
        }
    }

    @Test func conditionsOfTheHeaderIfAreEvaluated() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            let put = try await client.send("PUT", base + "a", bytes("1"))
            #expect(try await client.status("PUT", base + "b", bytes("1")) == 201)
            let tag = put["ETag"]
            let token = try await lock(client, base + "b").token
            for (header, status) in [
                ("([\(tag)])", 204), ("([\"x\"])", 412), ("(Not [\"x\"])", 204),
                ("(<DAV:no-lock>)", 412), ("(Not <DAV:no-lock>)", 204), ("(\(token))", 412),
                ("(\(token)) (Not <DAV:no-lock>)", 204),
                ("<\(base)b> (\(token))", 204), ("<\(base)b> (Not \(token))", 412),
                ("<http://other/dav/Documents/b> (\(token))", 412),
                ("<\(base)nothing> (Not \(token))", 204), ("<\(base)../b> (\(token))", 412),
                ("nonsense", 400),
            ] {
                let now = try await client.send("HEAD", base + "a")["ETag"]
                let text = header.replacing(tag, with: now)
                let answer = try await client.status("PUT", base + "a", bytes("2"), ["If": text])
                #expect(answer == status, "\(header)")
            }
        }
    }

    @Test func locksAreLimitedAndTheirBodiesChecked() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            for body in [
                "<lockinfo xmlns=\"DAV:\"/>", "<x/>", "<!DOCTYPE a><a/>",
                String(decoding: Self.body("other"), as: UTF8.self),
            ] { #expect(try await client.status("LOCK", base + "a", bytes(body)) == 400) }
            #expect(try await client.status("LOCK", base + "a", Self.body(), ["Depth": "1"]) == 400)
            let long = String(decoding: Self.body(), as: UTF8.self).replacing(
                "me", with: String(repeating: "m", count: 3000))
            #expect(try await client.status("LOCK", base + "a", bytes(long)) == 413)
            let caller = try await hub.hub.devices.caller(token: device.token)
            let (volume, time) = (device.volume.id, hub.hub.clock())
            try await hub.hub.ledger.write { transaction in
                for _ in 0..<Locking.Limits.account {
                    try LockTable(transaction: transaction, volume: volume).add(
                        Lock(
                            token: Lock.newToken(), item: .random(), account: caller.account,
                            device: caller.device, isExclusive: false, isDeep: false,
                            expires: time + 60_000_000_000, root: [], owner: ""))
                }
            }
            #expect(try await lock(client, base + "a").status == 507)
            #expect(try await lock(client, base + "new").status == 507)
            #expect(try await client.status("GET", base + "new") == 404)
            hub.advance(seconds: 61)
            #expect(try await lock(client, base + "a").status == 200)
            let left = try await hub.hub.ledger.read {
                try $0.row("SELECT count(*) FROM dav_locks", [])?.integer(0)
            }
            #expect(left == 1, "locks that have ended are removed")
        }
    }

    /// Otherwise somebody could hold up others for an hour after the right was taken away.
    @Test func aLockEndsWithTheRightToChange() async throws {
        try await RunningHub.with { hub in
            let owner = try await hub.device()
            let (client, other) = (try await hub.client(), try await hub.client("bert", named: "B"))
            let theirs = "/dav/anna@Documents/a"
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            func change(_ request: MemberRequest) async throws {
                let _: MemberList = try await Wire.post(
                    owner.path(.members), request, token: owner.token)
            }
            for end in [
                MemberRequest(.role, "bert", role: .reader), MemberRequest(.remove, "bert"),
            ] {
                try await change(MemberRequest(.add, "bert", role: .editor))
                #expect(try await lock(other, theirs).status == 200)
                #expect(try await client.status("PUT", base + "a", bytes("2")) == 423)
                try await change(end)
                #expect(try await client.status("PUT", base + "a", bytes("2")) == 204)
                if end.role != nil { try await change(MemberRequest(.remove, "bert")) }
                hub.advance(seconds: 3601)
            }
            try await change(MemberRequest(.add, "bert", role: .editor))
            #expect(try await lock(other, theirs).status == 200)
            let administration = try hub.administration()
            _ = try await administration.revoke("B")
            try administration.close()
            #expect(try await client.status("PUT", base + "a", bytes("3")) == 204)
        }
    }

    @Test func aRemovedAccountLeavesNoLocks() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            #expect(try await lock(client, base + "a").status == 201)
            let administration = try hub.administration()
            try await administration.removeAccount("anna", withVolumes: true)
            try administration.close()
            let left = try await hub.hub.ledger.read {
                try $0.row("SELECT count(*) FROM dav_locks", [])?.integer(0)
            }
            #expect(left == 0)
            #expect(try await client.status("GET", base + "a") == 401)
        }
    }

    @Test func aListShowsFewOfManySharedLocks() async throws {
        try await RunningHub.with { hub in
            _ = try await hub.device()
            let client = try await hub.client()
            #expect(try await client.status("PUT", base + "a", bytes("1")) == 201)
            for _ in 0..<40 {
                #expect(try await lock(client, base, "shared").status == 200)
            }
            let list = try await client.send("PROPFIND", base, nil, ["Depth": "1"])
            #expect(list.text.components(separatedBy: "<D:activelock>").count - 1 == 2 * 32)
        }
    }
}
