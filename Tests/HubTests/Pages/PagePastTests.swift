import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub
@testable import HubPages

/// A folder and its documents at a past time.
struct PagePastTests {
    /// A device that changes a document, and the times between its changes.
    private struct Diary {
        let hub: RunningHub
        var device: TestDevice
        let item = Identifier.random()
        let folder = Identifier.random()
        var last = Revision(
            id: .root, parents: [], content: .sha256([]), size: 0,
            moment: Moment(time: 0, device: .root))
        private(set) var times: [String: Int64] = [:]

        init(_ hub: RunningHub) async throws {
            self.hub = hub
            device = try await hub.device()
        }

        var volume: String { "/web/v/\(device.volume.id)" }

        /// The address of an item at the time after this change.
        func address(_ name: String, of item: Identifier? = nil) throws -> String {
            let time = PageTime.text(try #require(times[name]))
            return volume + (item.map { "/\($0)" } ?? "") + "?at=" + time
        }

        mutating func note(_ name: String) {
            times[name] = hub.hub.clock()
            hub.advance(seconds: 3600)
        }

        mutating func create(_ name: String, _ text: String) async throws {
            try await device.upload([bytes(text)])
            let entry = device.creation(name, bytes(text), id: item)
            last = try #require(entry.change.revision)
            try await device.commit([entry, device.directory("sub", id: folder)])
        }

        mutating func save(_ text: String) async throws {
            try await device.upload([bytes(text)])
            let revision = device.revision(of: bytes(text), parents: [last.id])
            last = revision
            try await device.commit([device.entry(item, .edit(revision), bytes: bytes(text))])
        }

        mutating func move(_ name: String, in parent: Identifier = .root) async throws {
            let (item, volume) = (item, device.volume.id)
            let state = try await hub.hub.ledger.read { try $0.item(item, in: volume) }
            let base = try #require(state).placedBy
            try await change(.move(device.placement(name, in: parent), base: base))
        }

        mutating func delete() async throws { try await change(.delete(current: nil)) }
        mutating func restore() async throws { try await change(.restore) }

        private mutating func change(_ change: Change) async throws {
            var entry = device.entry(item, change)
            entry.base = try await device.changes().head
            let answer = try await device.commit([entry])
            #expect(answer.results.first?.verdict == .applied)
        }

        /// Creates, saves, renames, moves, deletes and restores the document.
        mutating func fill() async throws {
            note("nothing")
            try await create("a.txt", "one")
            note("created")
            try await save("two two")
            note("saved")
            try await move("b.txt")
            note("renamed")
            try await move("b.txt", in: folder)
            note("moved")
            try await delete()
            note("deleted")
            try await restore()
            note("restored")
        }
    }

    /// The names and sizes in the page's list.
    private func rows(_ page: Surfer.Page) -> [String] {
        page.text.components(separatedBy: "<th scope=\"row\">").dropFirst().map { row in
            let name = row.firstMatch(of: /<bdi>([^<]*)<\/bdi>/)?.1 ?? ""
            let size = row.firstMatch(of: /<td class="size">([^<]*)<\/td>/)?.1 ?? ""
            return size.isEmpty ? "\(name)" : "\(name), \(size)"
        }
    }

    @Test func aFolderIsShownAsItWas() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.fill()
            var browser = try await hub.surfer()
            for (name, root, sub) in [
                ("nothing", [], []), ("created", ["sub", "a.txt, 3 bytes"], []),
                ("saved", ["sub", "a.txt, 7 bytes"], []),
                ("renamed", ["sub", "b.txt, 7 bytes"], []),
                ("moved", ["sub"], ["b.txt, 7 bytes"]), ("deleted", ["sub"], []),
                ("restored", ["sub"], ["b.txt, 7 bytes"]),
            ] as [(String, [String], [String])] {
                let page = try await browser.get(diary.address(name))
                #expect(page.status == 200 && rows(page) == root, "\(name)")
                #expect(page.prose.contains("The past: this is what the hub had on"))
                let field = page.text.firstMatch(of: /name="at"[^>]* value="([^"]*)"/)
                let again = try await browser.get(
                    "\(diary.volume)?at=\(try #require(field).1)")
                #expect(rows(again) == root, "the form as it is shows the same")
                let below = try await browser.get(diary.address(name, of: diary.folder))
                #expect(below.status == 200 && rows(below) == sub, "\(name)")
                let isThere = !below.prose.contains("did not exist at this time")
                let isBefore = below.prose.contains("before the first change")
                #expect(isThere && isBefore == (name == "nothing"))
                if name != "nothing" {
                    let query = try #require(try diary.address(name).split(separator: "?").last)
                    #expect(page.text.contains("\(diary.volume)/\(diary.folder)?\(query)"))
                    #expect(below.text.contains("href=\"\(diary.volume)?\(query)\""), "the path")
                }
                for form in ["upload", "folder", "rename", "move", "delete", "settle"] {
                    #expect(!page.text.contains("/\(form)\""), "\(form) on a page of the past")
                }
            }
            let (account, size) = try await hub.hub.ledger.read { transaction in
                let account = try transaction.account(named: "anna")
                return (account, try transaction.size(ofAccount: account?.id ?? .root))
            }
            #expect(account?.used == size, "the places that were left are charged once")
        }
    }

    @Test func aDocumentOpensAsItWasAndIsRestored() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.fill()
            try await diary.delete()
            var browser = try await hub.surfer()
            let page = try await browser.get(diary.address("created", of: diary.item))
            #expect(page.prose.contains("a.txt") && !page.prose.contains("b.txt"))
            #expect(page.prose.contains("one") && page.prose.contains("The past:"))
            #expect(page.prose.contains("Restore this version") && !page.prose.contains("Rename"))
            let early = try await browser.get(diary.address("nothing", of: diary.item))
            #expect(early.status == 404 && early.prose.contains("no version of b.txt"))
            let folder = try await browser.get(diary.address("created"))
            for mark in ["deleted since", "moved since", "changed since"] {
                #expect(folder.prose.contains(mark), "\(mark)")
            }
            let later = try await browser.get(diary.address("saved"))
            #expect(later.prose.contains("Undelete") && !later.prose.contains("changed since"))
            let restore = "\(diary.volume)/\(diary.item)/restore"
            let fields = try folder.form(to: restore)
            #expect(
                try await browser.post(restore, fields.filter { $0.0 != "token" }).status == 400)
            let answer = try await browser.post(restore, fields)
            #expect(answer["Location"] == "\(diary.volume)/\(diary.item)?done=restored")
            let (item, volume) = (diary.item, diary.device.volume.id)
            let state = try await hub.hub.ledger.read { try $0.item(item, in: volume) }
            #expect(state?.life.isAlive == true && state?.placement.parent == diary.folder)
            #expect(state?.current?.size == 3 && state?.conflicts.isEmpty == true)
            let again = try await browser.get(diary.address("created"))
            #expect(!again.prose.contains("changed since"), "it has the same contents again")
        }
    }

    @Test func theMomentsOfChangeAreLinks() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.fill()
            // A change elsewhere is none of the folder.
            try await diary.device.save("other.txt", bytes("other"))
            diary.note("other")
            var browser = try await hub.surfer()
            let address = "\(diary.volume)/\(diary.folder)"
            #expect(try await browser.get(address).text.contains("href=\"\(address)?at=now\""))
            var (path, seen) = (String?.some("\(address)?at=now"), [[String]]())
            while let next = path {
                let page = try await browser.get(next)
                seen.append(rows(page))
                let list = page.text.components(separatedBy: "<details class=\"moments\">").last
                let stops = try #require(list).matches(
                    of: /<li><a href="([^"]*)\?at=[^"]*"( aria-current="true")?>/)
                // The document came, went and came back.
                #expect(stops.count == 4 && stops.count { $0.2 != nil } == 1)
                path = page.text.firstMatch(of: /href="([^"]*)">Earlier change/)
                    .map { String($0.1) }
                #expect((page.text.contains("Later change")) == (seen.count > 1))
            }
            let there = ["b.txt, 7 bytes"]
            // The present and the last change show the same.
            #expect(seen == [there, [], there])
        }
    }

    static let badTimes = [
        "", "yesterday", "2026", "2026-11-21", "2026-13-01T00:00", "2026-02-30T08:00",
        "2026-11-21T24:00", "2026-11-21T08:60", "2026-11-21T08:15:61", "0000-00-00T00:00",
        "1500-01-01T00:00", "9999-12-31T23:59", "2026-11-21T08:15:30.1234567890",
        "+2026-11-21T08:15", "2026-11-21T08:15:30+01:00", "\u{661}026-11-21T08:15", "-1", "1e9",
        "2026-11-21T08:15;DROP", "<script>", String(repeating: "9", count: 4000), "\u{0}",
        "2026-11-21T08:15\n", "NOW",
    ]

    @Test func badTimesAreRefusedAndFarOnesShown() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.create("a.txt", "one")
            var browser = try await hub.surfer()
            for item in ["", "/\(diary.item)", "/\(diary.folder)"] {
                for time in Self.badTimes {
                    let path = "\(diary.volume)\(item)?at=\(Surfer.encoded(time))"
                    let page = try await browser.get(path)
                    #expect(page.status == 400, "\(path)")
                    #expect(page.prose.contains("There is no such time. Write it in UTC"))
                }
            }
            let twice = try await browser.get("\(diary.volume)?at=now&at=now")
            #expect(twice.status == 400)
            let future = try await browser.get("\(diary.volume)?at=2261-01-01T00:00Z")
            #expect(future.status == 200 && rows(future) == ["sub", "a.txt, 3 bytes"])
            #expect(future.prose.contains("This is the folder as it is now"))
            for early in ["1970-01-01T00:00", "1678-01-01T00:00:00.5"] {
                let page = try await browser.get("\(diary.volume)?at=\(early)")
                #expect(page.status == 200 && rows(page).isEmpty)
                #expect(page.prose.contains("before the first change that the hub knows of"))
            }
            for page in ["-1", "item-zz-1-x", "place-1", "item---", "-", "place-x-\(diary.item)"] {
                let answer = try await browser.get("\(diary.volume)?at=now&page=\(page)")
                #expect(answer.status == 200 && rows(answer).count == 2, "\(page)")
            }
            var other = try await hub.surfer("bert")
            #expect(try await other.get("\(diary.volume)?at=now").status == 404)
            #expect(try await other.get("\(diary.volume)/\(diary.item)?at=now").status == 404)
        }
    }

    @Test(arguments: [Int64(0), 1, 999_999_999, 1_795_818_854_899_943_658, -1])
    func aTimeIsReadAsItIsWritten(nanoseconds: Int64) throws {
        #expect(try PageTime.nanoseconds(PageTime.text(nanoseconds)) == nanoseconds)
    }

    /// What an older hub has not recorded is said, and documents are shown where they are now.
    @Test func whatIsNotKnownIsSaid() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.create("a.txt", "one")
            diary.note("created")
            try await diary.move("<b>.txt")
            diary.note("renamed")
            let volume = diary.device.volume.id
            try await hub.hub.ledger.write { transaction in
                try transaction.execute("DELETE FROM past_places", [])
                try transaction.execute(
                    "UPDATE volumes SET unplaced = head WHERE id = $1", [.id(volume)])
            }
            try await diary.device.save("new.txt", bytes("new"))
            diary.note("new")
            var browser = try await hub.surfer()
            let page = try await browser.get(diary.address("created"))
            #expect(page.prose.contains("this hub did not record when something was moved"))
            #expect(page.prose.contains("place not known") && page.prose.contains("<b>.txt"))
            #expect(rows(page).count == 2 && !page.prose.contains("new.txt"))
            let later = try await browser.get(diary.address("renamed"))
            #expect(!later.prose.contains("did not record") && rows(later).count == 2)
        }
    }

    @Test func hostileNamesAreTextInThePast() async throws {
        try await RunningHub.with { hub in
            var diary = try await Diary(hub)
            try await diary.create(PageBrowsingTests.hostileNames[0], "one")
            diary.note("first")
            for (number, name) in PageBrowsingTests.hostileNames.enumerated().dropFirst() {
                try await diary.move(name)
                diary.note("\(number)")
            }
            var browser = try await hub.surfer()
            for (number, name) in PageBrowsingTests.hostileNames.enumerated().dropFirst() {
                for item in [nil, diary.item] {
                    let page = try await browser.get(diary.address("\(number)", of: item))
                    #expect(page.status == 200)
                    let text = Data(PageText().escapeText(Shown.name(name)).utf8)
                    #expect(Data(page.bytes).range(of: text) != nil, "\(name)")
                    PageBrowsingTests().check(page)
                }
            }
        }
    }

    /// Half of the items came later, so a page of the past looks at more than it shows.
    @Test func hugeFoldersArePagedInThePast() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let (volume, half) = (device.volume.id, 10_100)
            let placements = (0..<2 * half).map { device.placement("item \($0)") }
            let start = hub.hub.clock()
            try await hub.hub.ledger.write { transaction in
                for (number, placement) in placements.enumerated() {
                    let sequence: UInt64 = number < half ? 1 : 2
                    try transaction.put(
                        ItemState(
                            id: .random(), kind: .directory, placement: placement,
                            placedBy: .unknown, placedAt: Moment(time: 1, device: device.id),
                            placedSequence: sequence, sequence: sequence), replacing: nil,
                        in: volume)
                }
                for sequence in [UInt64(1), 2] {
                    try JournalTimes(transaction, volume: volume).advance(
                        after: sequence - 1, to: sequence,
                        at: start + Int64(sequence) * 1_000_000_000)
                }
            }
            hub.advance(seconds: 10)
            var browser = try await hub.surfer()
            let time = PageTime.text(start + 1_500_000_000)
            var (names, next) = (Set<Substring>(), String?.some("/web/v/\(volume)?at=\(time)"))
            while let path = next {
                let page = try await browser.get(path.replacing("&amp;", with: "&"))
                #expect(page.prose.contains("not sorted by name") && page.bytes.count < 150_000)
                let found = page.text.matches(of: /<bdi>item (\d+)<\/bdi>/).map(\.1)
                #expect(found.count <= 200 && names.isDisjoint(with: found))
                names.formUnion(found)
                next = page.text.firstMatch(of: /rel="next" href="([^"]*)"/).map { String($0.1) }
            }
            #expect(names == Set((0..<half).map { Substring("\($0)") }))
        }
    }
}
