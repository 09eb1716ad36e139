import Foundation
import HubPages
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Versions, conflicts and deleted items on the pages.
struct PageVersionTests {
    /// A document of a device, and its page.
    private struct Written {
        var device: TestDevice
        let item = Identifier.random()
        var revisions: [Revision] = []

        init(_ hub: RunningHub, _ name: String = "a.txt") async throws {
            device = try await hub.device()
            try await device.upload([bytes("one\n")])
            let entry = device.creation(name, bytes("one\n"), id: item)
            try await device.commit([entry])
            revisions = [try #require(entry.change.revision)]
        }

        var address: String { "/web/v/\(device.volume.id)/\(item)" }

        /// Saves a version with these parents; of the last one if there are none.
        @discardableResult
        mutating func save(
            _ text: String, parents: [Revision]? = nil, base: UInt64? = nil
        ) async throws -> OperationResult {
            try await device.upload([bytes(text)])
            let parents = parents ?? revisions.suffix(1)
            let revision = device.revision(of: bytes(text), parents: parents.map(\.id))
            revisions.append(revision)
            let entry = device.entry(item, .edit(revision), bytes: bytes(text))
            return try await device.commit([entry]).results[0]
        }

        func state() async throws -> ItemState {
            for case .item(let state) in try await device.changes(query: "&trashedAfter=0").changes
            where state.id == item { return state }
            throw SupportError("the item is not in the feed")
        }

        /// The contents as a device reads them.
        func text(_ revision: Revision?) async throws -> String {
            let frames = try await device.read([try #require(revision).content])
            return String(decoding: try #require(frames.first).bytes, as: UTF8.self)
        }
    }

    @Test func aFormerVersionIsRestoredOnDevices() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("two\n")
            try await written.save("three\n")
            var browser = try await hub.surfer()
            let page = try await browser.get(written.address)
            #expect(page.text.contains("three"))
            for revision in written.revisions {
                #expect(page.text.contains("?revision=\(revision.id)"))
            }
            let old = try await browser.get(
                "\(written.address)?revision=\(written.revisions[0].id)")
            #expect(old.prose.contains("This is a former version") && old.prose.contains("one"))
            let restore = written.address + "/restore"
            let fields = try old.form(to: restore)
            for missing in ["token", "position", "revision"] {
                let others = fields.filter { $0.0 != missing }
                let answer = try await browser.post(restore, others)
                #expect((400..<500).contains(answer.status), "\(missing)")
            }
            #expect(try await written.state().current?.id == written.revisions[2].id)
            let answer = try await browser.post(restore, fields)
            #expect(answer.status == 303)
            #expect(answer["Location"] == written.address + "?done=restored")
            let state = try await written.state()
            let current = try #require(state.current)
            #expect(try await written.text(current) == "one\n")
            #expect(current.parents == [written.revisions[2].id] && state.conflicts.isEmpty)
            #expect(current.note.person == "anna" && current.note.name == "a.txt")
            let holders: DurabilityAnswer = try await Wire.post(
                written.device.path(.durability), RevisionList(revisions: [current.id]),
                token: written.device.token)
            #expect(holders.devices == [0], "a browser does not have the contents")
            let done = try await browser.get(written.address + "?done=restored")
            #expect(done.prose.contains("is the current one now"))
        }
    }

    @Test func aRestoreOfAnOldPageMakesAConflict() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("two\n")
            var browser = try await hub.surfer()
            let old = try await browser.get(
                "\(written.address)?revision=\(written.revisions[0].id)")
            try await written.save("three\n")
            let restore = written.address + "/restore"
            let answer = try await browser.post(restore, try old.form(to: restore))
            #expect(answer["Location"] == written.address + "?done=conflict")
            let state = try await written.state()
            let live = [state.current].compactMap(\.self) + state.conflicts
            let texts = try await [written.text(live[0]), written.text(live[1])].sorted()
            #expect(live.count == 2 && texts == ["one\n", "three\n"], "nothing is lost")
        }
    }

    @Test(arguments: [true, false]) func aConflictIsSettled(keepsCurrent: Bool) async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("mine\n")
            try await written.save("theirs\n", parents: [written.revisions[0]])
            let before = try await written.state()
            let current = try #require(before.current)
            let conflict = try #require(before.conflicts.first)
            var browser = try await hub.surfer()
            let folder = try await browser.get("/web/v/\(written.device.volume.id)")
            #expect(folder.prose.contains("conflict"))
            let page = try await browser.get(written.address)
            #expect(page.prose.contains("This document is in conflict"))
            let compare = try await browser.get(
                "\(written.address)/compare?from=\(conflict.id)&to=\(current.id)")
            #expect(compare.prose.contains("mine") && compare.prose.contains("theirs"))
            let settle = written.address + "/settle"
            // The conflict version is on the left.
            let fields = try compare.form(to: settle, nth: keepsCurrent ? 1 : 0)
            let kept = keepsCurrent ? current : conflict
            #expect(fields.contains { $0 == ("keep", kept.id.description) })
            let answer = try await browser.post(settle, fields)
            #expect(answer["Location"] == written.address + "?done=settled")
            let after = try await written.state()
            #expect(after.conflicts.isEmpty && after.current?.content == kept.content)
            let again = try await browser.get(written.address)
            #expect(!again.prose.contains("This document is in conflict"))
            for revision in written.revisions {
                #expect(again.text.contains("?revision=\(revision.id)"), "all stay in the list")
            }
        }
    }

    @Test func aVersionThatArrivesMeanwhileIsNotSettled() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("mine\n")
            try await written.save("theirs\n", parents: [written.revisions[0]])
            var browser = try await hub.surfer()
            let page = try await browser.get(written.address)
            try await written.save("third\n", parents: [written.revisions[0]])
            let settle = written.address + "/settle"
            _ = try await browser.post(settle, try page.form(to: settle, nth: 1))
            let state = try await written.state()
            let live = [state.current].compactMap(\.self) + state.conflicts
            #expect(live.contains { $0.id == written.revisions[3].id })
            #expect(live.count == 2)
        }
    }

    @Test func deletedItemsComeBackOnDevices() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub, "<deleted>.txt")
            let head = try await written.device.changes().head
            var delete = written.device.entry(
                written.item, .delete(current: written.revisions[0].id))
            delete.base = head
            try await written.device.commit([delete])
            #expect(try await !written.state().life.isAlive)
            var browser = try await hub.surfer()
            let volume = "/web/v/\(written.device.volume.id)"
            #expect(try await !browser.get(volume).prose.contains("<deleted>"))
            let list = try await browser.get(volume + "?deleted=1")
            #expect(list.prose.contains("<deleted>.txt"))
            let undelete = written.address + "/undelete"
            let page = try await browser.get(written.address)
            #expect(page.prose.contains("This was deleted") && page.prose.contains("one"))
            let fields = try list.form(to: undelete)
            #expect(try await browser.post(undelete, []).status == 400)
            #expect(try await browser.get(undelete).status == 405)
            try await written.device.save("<deleted>.txt", bytes("another"))
            let answer = try await browser.post(undelete, fields)
            #expect(answer["Location"] == written.address + "?done=renamed")
            let state = try await written.state()
            #expect(state.life.isAlive && state.isBounced)
            let done = try await browser.get(written.address + "?done=renamed")
            #expect(done.prose.contains("It is back as <deleted>.txt (spare)"))
        }
    }

    @Test func requestsOfOneSessionAtTheSameTimeAreAllDone() async throws {
        try await RunningHub.with { hub in
            let browser = try await hub.surfer()
            var device = try await hub.device()
            var items: [Identifier] = []
            for number in 0..<12 {
                items.append(.random())
                try await device.commit([device.directory("\(number)", id: items[number])])
            }
            let head = try await device.changes().head
            for item in items {
                var delete = device.entry(item, .delete(current: nil))
                delete.base = head
                try await device.commit([delete])
            }
            let volume = "/web/v/\(device.volume.id)"
            var first = browser
            let list = try await first.get(volume + "?deleted=1")
            let forms = try items.map { item in
                let address = "\(volume)/\(item)/undelete"
                return (address, try list.form(to: address))
            }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for (address, fields) in forms {
                    group.addTask {
                        var browser = browser
                        return try await browser.post(address, fields).status
                    }
                }
                for try await status in group { #expect(status == 303) }
            }
            let alive = try await device.changes().changes.count
            #expect(alive == 12)
        }
    }

    @Test func formsOfAnotherSessionOrAccountChangeNothing() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("two\n")
            var browser = try await hub.surfer()
            let old = "\(written.address)?revision=\(written.revisions[0].id)"
            let restore = written.address + "/restore"
            let fields = try (try await browser.get(old)).form(to: restore)
            var second = try await hub.surfer()
            #expect(try await second.post(restore, fields).status == 400)
            var other = try await hub.surfer("bert")
            #expect(try await other.post(restore, fields).status == 404)
            var nobody = Surfer(hub.url)
            #expect(try await nobody.post(restore, fields).status == 401)
            #expect(
                try await browser.post(restore, fields, ["Sec-Fetch-Site": "cross-site"]).status
                    == 400)
            for position in ["", "1", "\(Identifier.random())-1", fields[1].1 + "0000"] {
                let changed = fields.map { $0.0 == "position" ? ("position", position) : $0 }
                #expect(try await browser.post(restore, changed).status == 409, "\(position)")
            }
            let strange = fields.map {
                $0.0 == "revision" ? ("revision", "\(Identifier.random())") : $0
            }
            #expect(try await browser.post(restore, strange).status == 404)
            #expect(try await written.state().current?.id == written.revisions[1].id)
            #expect(try await browser.post(restore, fields).status == 303)
        }
    }

    @Test func versionsAreComparedSideBySide() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            let lines = (1...40).map { "line \($0)" }
            try await written.save(lines.joined(separator: "\n") + "\n")
            var changed = lines
            changed[19] = "line <20> & more"
            changed.remove(at: 29)
            changed.append("line 41")
            try await written.save(changed.joined(separator: "\n") + "\n")
            try await written.save(String(repeating: "x", count: 600_000))
            try await written.save("\u{0}binary")
            var browser = try await hub.surfer()
            func compare(_ a: Int, _ b: Int) async throws -> Surfer.Page {
                let ids = (written.revisions[a].id, written.revisions[b].id)
                return try await browser.get("\(written.address)/compare?from=\(ids.0)&to=\(ids.1)")
            }
            let page = try await compare(1, 2)
            #expect(page.text.contains("line <del></del>20") || page.text.contains("<del>20</del>"))
            #expect(page.text.contains("&lt;20&gt; &amp; more"))
            #expect(page.prose.contains("16 equal lines") && page.prose.contains("line 41"))
            #expect(page.text.matches(of: /<tr class="changed">/).count == 3)
            #expect(try await compare(2, 2).prose.contains("The texts are equal"))
            #expect(try await compare(2, 3).prose.contains("not texts that a page can compare"))
            #expect(try await compare(2, 4).prose.contains("not texts that a page can compare"))
            let bad = try await browser.get("\(written.address)/compare?from=x&to=y")
            #expect(bad.status == 404)
            #expect(try await browser.get("\(written.address)/compare").status == 200)
        }
    }

    /// What a reader has compared takes turns with the reader's other work, not with the owner's.
    @Test func readersDoNotKeepTheOwnerWaiting() async throws {
        try await RunningHub.with { hub in
            var written = try await Written(hub)
            try await written.save("two\n")
            var browser = try await hub.surfer("bert")
            let add = MemberRequest(.add, "bert", role: .reader)
            let _: MemberList = try await Wire.post(
                written.device.path(.members), add, token: written.device.token)
            let found = try await hub.hub.ledger.read { try $0.account(named: "anna")?.id }
            let owner = try #require(found)
            let page = try await hub.hub.perAccountLock.alone(
                owner, waiting: { try await browser.get("\(written.address)/compare") })
            #expect(page.status == 200 && page.prose.contains("two"))
        }
    }
}
