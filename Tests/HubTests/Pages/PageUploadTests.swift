import ChunkStore
import Foundation
import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// Files that a browser sends into a folder.
struct PageUploadTests {
    /// A browser on the page of a volume's root.
    struct Sender {
        let hub: RunningHub
        var device: TestDevice
        var browser: Surfer
        /// The fields of the form as the page had it.
        var fields: [(String, String)] = []

        var volume: String { "/web/v/\(device.volume.id)" }
        var target: String { "\(volume)/\(Identifier.root)/upload" }

        init(_ hub: RunningHub, quota: UInt64? = nil) async throws {
            self.hub = hub
            device = try await hub.device(quota: quota)
            browser = try await hub.surfer()
            try await load()
        }

        mutating func load() async throws {
            fields = try await browser.get(volume).form(to: target)
        }

        @discardableResult
        mutating func send(
            _ files: [(name: String, contents: [UInt8])], _ more: [(String, String)] = []
        ) async throws -> Surfer.Page {
            try await browser.upload(target, fields + more, files)
        }

        func items() async throws -> [String: ItemState] { try await device.aliveItems() }

        mutating func contents(_ name: String) async throws -> [UInt8] {
            let item = try #require(try await items()[name])
            return try await browser.get("\(volume)/\(item.id)/file").bytes
        }

        /// Saves a version as the device would.
        mutating func save(_ item: ItemState, _ text: String) async throws -> Revision {
            try await device.upload([bytes(text)])
            let edit = device.revision(of: bytes(text), parents: [try #require(item.current).id])
            try await device.commit([device.entry(item.id, .edit(edit), bytes: bytes(text))])
            return edit
        }
    }

    @Test func filesAreSavedAsADeviceSavesThem() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let answer = try await sender.send(
                [("a.txt", bytes("one")), ("b \u{E9}.txt", bytes("two")), ("empty", [])])
            #expect(answer.status == 303)
            #expect(answer["Location"] == sender.volume + "?done=uploaded")
            var items = try await sender.items()
            #expect(Set(items.keys) == ["a.txt", "b \u{E9}.txt", "empty"])
            let item = try #require(items["a.txt"])
            let first = try #require(item.current)
            #expect(first.note.person == "anna" && first.note.deviceName.hasPrefix("Browser"))
            #expect(item.attributes["mode"]?.value == [1, 0xA4])
            #expect(try await sender.contents("a.txt") == bytes("one"))
            #expect(try await sender.contents("empty") == [])
            let durability: DurabilityAnswer = try await Wire.post(
                sender.device.path(.durability), RevisionList(revisions: [first.id]),
                token: sender.device.token)
            #expect(durability.devices == [0], "a browser does not keep the contents")
            try await sender.load()
            let time = 1_000_000_000_000
            try await sender.send([("a.txt", bytes("three"))], [("modified", "\(time)")])
            items = try await sender.items()
            let second = try #require(items["a.txt"]?.current)
            #expect(second.parents == [first.id] && items["a.txt"]?.conflicts.isEmpty == true)
            #expect(second.note.modified == Int64(time) * 1_000_000)
            #expect(try await sender.browser.get(answer["Location"]).prose.contains("is saved"))
            try await hub.checkIsSound()
        }
    }

    /// Of a file in a form only the most that it can be is known, and how it is cut depends on its
    /// length. The first of two files before 64 MiB is cut a second time.
    @Test func filesAreCutAsDevicesCutThem() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            var random = SeededRandom(named: "page uploads")
            let noise = (0..<(5 << 20) / 8).flatMap { _ in
                withUnsafeBytes(of: random.next()) { Array($0) }
            }
            let database = bytes("SQLite format 3\0") + noise.prefix(3 << 20)
            let files: [(name: String, contents: [UInt8])] = [
                ("text", noise), ("small", Array(noise.prefix(1000))), ("database", database),
                ("large", [UInt8](repeating: 7, count: 65 << 20) + noise),
            ]
            #expect(try await sender.send(files).status == 303)
            try await sender.load()
            #expect(try await sender.send([("alone", noise)]).status == 303)
            let volume = sender.device.volume.id
            for (name, contents) in files + [("alone", noise)] {
                let file = try Command.scratch(holding: Data(contents))
                let expected = try cutContent(
                    of: FileContent(descriptor: file.fileDescriptor), size: UInt64(contents.count)
                ) { _, _ in }
                let current = try #require(try await sender.items()[name]?.current)
                let stored = try await hub.hub.ledger.read {
                    try $0.manifest(of: current.id, in: volume)
                }
                #expect(stored.flatMap { Manifest(encoded: $0)?.fileChunks } == expected, "\(name)")
                #expect(try await sender.contents(name) == contents, "\(name)")
            }
            try await hub.checkIsSound()
        }
    }

    @Test func anUploadFollowsTheVersionThatThePageShowed() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            try await sender.send([("a", bytes("one")), ("b", bytes("b"))])
            try await sender.load()
            let old = try #require(try await sender.items()["a"])
            let late = try await sender.save(old, "of the device")
            let answer = try await sender.send([("a", bytes("of the page"))])
            let page = "\(sender.volume)/\(old.id)"
            #expect(answer["Location"] == page + "?done=conflict")
            var item = try #require(try await sender.items()["a"])
            var live = [item.current].compactMap(\.self) + item.conflicts
            #expect(live.count == 2 && live.contains { $0.id == late.id }, "nothing is lost")
            #expect(live.first { $0.id != late.id }?.parents == [try #require(old.current).id])
            let shown = try await sender.browser.get(answer["Location"])
            #expect(shown.prose.contains("so there is a conflict"))
            #expect(shown.prose.contains("This document is in conflict"))
            // With several files, the folder says it.
            let several = try await sender.send([("a", bytes("third")), ("b", bytes("new b"))])
            #expect(several["Location"] == sender.volume + "?done=conflicts")
            item = try #require(try await sender.items()["a"])
            live = [item.current].compactMap(\.self) + item.conflicts
            #expect(live.count == 3)
            #expect(try await sender.items()["b"]?.conflicts.isEmpty == true)
            #expect(try await sender.contents("b") == bytes("new b"))
        }
    }

    /// As when two devices make documents of one name: the second one gets another name.
    @Test func aNameThatSomethingGotMeanwhileIsNotReplaced() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let names = try await hub.names(sender.device)
            try await sender.device.make("a", contents: bytes("device"), by: names)
            let answer = try await sender.send([("a", bytes("page")), ("b", bytes("b"))])
            #expect(answer["Location"] == sender.volume + "?done=beside")
            let items = try await sender.items()
            #expect(items.count == 3)
            #expect(try await sender.contents("a") == bytes("device"))
            let spare = try #require(items.keys.first { $0.hasPrefix("a (Browser") })
            #expect(try await sender.contents(spare) == bytes("page"))
            let shown = try await sender.browser.get(answer["Location"])
            #expect(shown.prose.contains("is kept beside it"))
        }
    }

    @Test func onlyDocumentsAreReplaced() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let names = try await hub.names(sender.device)
            let folder = try await sender.device.make("folder", .directory, by: names)
            try await sender.device.make("link", .symlink, by: names, target: "x")
            let package = try await sender.device.makePackage(
                "p.rtfd", [("TXT.rtf", bytes("text"))], names)
            try await sender.load()
            let head = try await sender.device.changes().head
            for name in ["folder", "link", "p.rtfd"] {
                let answer = try await sender.send([("new", bytes("1")), (name, bytes("1"))])
                #expect(answer.status == 400 && answer.prose.contains("something else"), "\(name)")
            }
            let wrong = "\(sender.volume)/\(package)/upload"
            #expect(try await sender.browser.upload(wrong, sender.fields, []).status == 400)
            #expect(try await sender.device.changes().head == head, "no file is saved alone")
            let inside = "\(sender.volume)/\(folder)/upload"
            let answer = try await sender.browser.upload(inside, sender.fields, [("x", [1])])
            #expect(answer["Location"] == "\(sender.volume)/\(folder)?done=uploaded")
            #expect(try await sender.items()["x"]?.placement.parent == folder)
            var delete = sender.device.entry(folder, .delete(current: nil))
            delete.base = try await sender.device.changes().head
            try await sender.device.commit([delete])
            let gone = try await sender.browser.upload(inside, sender.fields, [("y", [1])])
            #expect(gone.status == 400 && gone.prose.contains("was deleted"))
        }
    }

    @Test func hostileNamesAreRefusedOrKeptAsTheyAre() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let refused = [
                ".", "..", "a/b", "../a", "/etc/passwd", "a\0b", ".versions", ".conflicts",
                ".concord-incoming", String(repeating: "x", count: 256),
            ]
            for name in refused {
                let answer = try await sender.send([("good", bytes("1")), (name, bytes("1"))])
                #expect(answer.status == 400 && answer.prose.contains("Nothing was"), "\(name)")
            }
            #expect(try await sender.items().isEmpty)
            let kept = [
                "<script>alert(1)<script>", "a\"b'c", "a\r\nb\tc", "\u{202E}txt.exe", "...", " ",
                "-rf", "CON", "a\\b", "100%", "e\u{301}\u{200B}", "a;b=c\u{7F}", "?x=1#y", "\u{1}",
                String(repeating: "\u{E9}", count: 127),
            ]
            try await sender.load()
            #expect(try await sender.send(kept.map { ($0, bytes($0)) }).status == 303)
            #expect(try await Set(sender.items().keys) == Set(kept))
            for name in kept {
                #expect(try await sender.contents(name) == bytes(name), "\(name)")
            }
            let page = try await sender.browser.get(sender.volume)
            #expect(page.status == 200 && !page.text.contains("<script>alert"))
            // One name in two spellings.
            try await sender.load()
            let twice = try await sender.send([("\u{E9}", [1]), ("e\u{301}", [2])])
            #expect(twice.status == 400 && twice.prose.contains("Two files"))
        }
    }

    @Test func formsThatLieChangeNothing() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let target = sender.target
            for missing in ["token", "position"] {
                let fields = sender.fields.filter { $0.0 != missing }
                let answer = try await sender.browser.upload(target, fields, [("a", [1])])
                #expect((400..<500).contains(answer.status), "\(missing)")
                // The token comes before the files.
                let late = Array(Surfer.multipart(fields, [("a", [1])]).dropLast(42))
                let rest = Surfer.multipart(sender.fields.filter { $0.0 == missing }, [])
                let sent = try await sender.browser.send("POST", target, late + rest, Surfer.type)
                #expect((400..<500).contains(sent.status), "\(missing)")
            }
            let site = ["Sec-Fetch-Site": "cross-site"]
            #expect(
                try await sender.browser.upload(target, sender.fields, [("a", [1])], site).status
                    == 400)
            let whole = Surfer.multipart(sender.fields, [("a", [UInt8](repeating: 1, count: 999))])
            for length in stride(from: 0, to: whole.count - 3, by: 37) {
                let cut = Array(whole.prefix(length))
                let answer = try await sender.browser.send("POST", target, cut, Surfer.type)
                #expect(answer.status == 400, "\(length)")
            }
            for type in ["text/plain", "multipart/form-data", "multipart/form-data; boundary=Y"] {
                let answer = try await sender.browser.send(
                    "POST", target, whole, ["Content-Type": type])
                #expect([400, 415].contains(answer.status), "\(type)")
            }
            #expect(try await sender.browser.post(target, sender.fields).status == 415)
            let many = (0...200).map { (name: "\($0)", contents: [UInt8(1)]) }
            #expect(try await sender.send(many).status == 413)
            let noise = (0..<2000).map { ("x\($0)", "y") }
            #expect(try await sender.send([("a", [1])], noise).status == 400)
            let long = [("x", String(repeating: "y", count: 1 << 20))]
            #expect(try await sender.send([("a", [1])], long).status == 413)
            for time in ["x", "-1", "99999999999999999999"] {
                #expect(try await sender.send([("a", [1])], [("modified", time)]).status == 400)
            }
            let none = try await sender.send([("", [])])
            #expect(none.status == 400 && none.prose.contains("Choose a file"))
            #expect(try await sender.send([("", [1])]).status == 400)
            #expect(try await sender.items().isEmpty)
            #expect(try await sender.browser.send("POST", target, whole, Surfer.type).status == 303)
        }
    }

    @Test func anUploadThatEndsInTheMiddleLeavesNothing() async throws {
        try await RunningHub.with { hub in
            let sender = try await Sender(hub)
            let (fields, cookie) = try await hub.form(of: sender.device)
            let files = (0..<3).map {
                (name: "\($0)", contents: [UInt8](repeating: 7, count: 99_999))
            }
            let body = Surfer.multipart(fields, files)
            let line = try ConnectionTests.Line(hub.url)
            line.send(
                "POST \(sender.target) HTTP/1.1\r\nHost: h\r\nCookie: \(cookie)\r\n"
                    + "Content-Type: \(Surfer.type.first!.value)\r\n"
                    + "Content-Length: \(body.count)\r\n\r\n")
            line.send(Array(body.dropLast(50_000)))
            line.end()
            #expect(try line.rest().contains("HTTP/1.1 400"))
            #expect(try await sender.items().isEmpty)
            try await hub.checkIsSound()
        }
    }

    @Test func theQuotaIsSaidInASentence() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub, quota: 1 << 20)
            let large = [UInt8](repeating: 7, count: 2 << 20)
            let answer = try await sender.send([("small", [1]), ("large", large)])
            #expect(answer.status == 507)
            #expect(answer.prose.contains("There is no space") && answer.prose.contains("quota"))
            #expect(try await sender.items().isEmpty, "no file is saved alone")
            #expect(try await sender.send([("small", [1])]).status == 303)
        }
    }

    /// However long an upload is, and however many there are.
    @Test func uploadsTakeAsMuchMemoryAsTheirAccountMay() async throws {
        var limits = CallerLimits()
        limits.bodyBytesPerAccount = 3 << 20
        try await RunningHub.with(limits: limits) { hub in
            var sender = try await Sender(hub)
            let long = [UInt8](repeating: 7, count: 40 << 20)
            #expect(try await sender.send([("long", long)]).status == 303)
            #expect(try await sender.contents("long") == long)
            // Of a file that may be longer than 1 GiB, chunks of 4 MiB are held.
            let (fields, cookie) = try await hub.form(of: sender.device)
            let body = Surfer.multipart(fields, [("huge", long)])
            let line = try ConnectionTests.Line(hub.url)
            line.send(
                "POST \(sender.target) HTTP/1.1\r\nHost: h\r\nCookie: \(cookie)\r\n"
                    + "Content-Type: \(Surfer.type.first!.value)\r\n"
                    + "Content-Length: \(2 << 30)\r\n\r\n")
            line.send(Array(body.prefix(4 << 20)))
            #expect(try line.rest(upTo: "\r\n").contains("HTTP/1.1 503"))
            try await sender.load()
            #expect(try await sender.send([("long", long + [1])]).status == 303)
        }
    }

    @Test func readersUploadNothing() async throws {
        try await RunningHub.with { hub in
            let owner = try await hub.device(of: "bert", volume: "Shared")
            var browser = try await hub.surfer()
            let add = MemberRequest(.add, "anna", role: .reader)
            let _: MemberList = try await Wire.post(owner.path(.members), add, token: owner.token)
            let volume = "/web/v/\(owner.volume.id)"
            let page = try await browser.get(volume)
            #expect(page.status == 200 && !page.text.contains("/upload"))
            let target = "\(volume)/\(Identifier.root)"
            let token = page.fields("token")[0]
            let fields = [("token", token), ("position", "\(owner.volume.epoch)-0")]
            for answer in [
                try await browser.upload(target + "/upload", fields, [("a", [1])]),
                try await browser.post(target + "/folder", fields + [("name", "a")]),
                try await browser.get(target + "/edit"),
            ] {
                #expect(answer.status == 403 && answer.prose.contains("You are a reader"))
            }
            #expect(try await owner.changes().head == 0)
            let role = MemberRequest(.role, "anna", role: .editor)
            let _: MemberList = try await Wire.post(owner.path(.members), role, token: owner.token)
            #expect(
                try await browser.upload(target + "/upload", fields, [("a", [1])]).status == 303)
        }
    }

    @Test func uploadsAtTheSameTimeAreAllSaved() async throws {
        try await RunningHub.with { hub in
            let sender = try await Sender(hub)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<24 {
                    group.addTask {
                        var one = sender
                        // Half of them have a name that another one has, too.
                        let name = "\(number % 2 == 0 ? number : 1)"
                        return try await one.send([(name, bytes("\(number)"))]).status
                    }
                }
                for try await status in group { #expect(status == 303) }
            }
            var (texts, reader) = (Set<String>(), sender)
            for name in try await sender.items().keys {
                texts.insert(String(decoding: try await reader.contents(name), as: UTF8.self))
            }
            #expect(texts == Set((0..<24).map { "\($0)" }), "nothing is lost")
            try await hub.checkIsSound()
        }
    }
}
