import Foundation
import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import HubPages

/// Folders that are made, and items that are renamed, moved, deleted and edited on pages.
struct PageChangeTests {
    private typealias Sender = PageUploadTests.Sender

    /// The fields of a form on an item's page.
    private func form(
        _ sender: inout Sender, _ item: Identifier, _ view: String, page: String = ""
    ) async throws -> [(String, String)] {
        let address = "\(sender.volume)/\(item)"
        return try await sender.browser.get(address + page).form(to: "\(address)/\(view)")
    }

    private func post(
        _ sender: inout Sender, _ item: Identifier, _ view: String, _ fields: [(String, String)]
    ) async throws -> Surfer.Page {
        try await sender.browser.post("\(sender.volume)/\(item)/\(view)", fields)
    }

    @Test func foldersAreMade() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let answer = try await post(
                &sender, .root, "folder", sender.fields + [("name", "New <1>")])
            let folder = try #require(try await sender.items()["New <1>"])
            #expect(folder.kind == .directory && folder.attributes["mode"]?.value == [1, 0xED])
            #expect(answer["Location"] == "\(sender.volume)/\(folder.id)?done=made")
            let page = try await sender.browser.get(answer["Location"])
            #expect(page.prose.contains("The folder New <1> is made."))
            for name in ["New <1>", "", ".", "..", "a/b", ".versions"] {
                let again = try await post(
                    &sender, .root, "folder", sender.fields + [("name", name)])
                #expect(again.status == 400 && again.prose.contains("Nothing was done"), "\(name)")
            }
            #expect(try await post(&sender, .root, "folder", [("name", "x")]).status == 400)
            #expect(try await sender.items().count == 1)
        }
    }

    @Test func itemsAreRenamed() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            try await sender.send([("a", bytes("a")), ("b", bytes("b"))])
            let item = try #require(try await sender.items()["a"]).id
            let fields = try await form(&sender, item, "rename")
            for name in ["b", "", "..", "x/y", ".conflicts"] {
                let answer = try await post(&sender, item, "rename", fields + [("name", name)])
                #expect(answer.status == 400 && answer.prose.contains("Nothing was"), "\(name)")
            }
            let answer = try await post(&sender, item, "rename", fields + [("name", "c\"")])
            #expect(answer["Location"] == "\(sender.volume)/\(item)?done=named")
            #expect(try await sender.items()["c\""]?.id == item)
            #expect(try await sender.browser.get(answer["Location"]).prose.contains("called c\""))
            // The page that was loaded before shows an older name.
            let late = try await post(&sender, item, "rename", fields + [("name", "d")])
            #expect(late.status == 409 && late.prose.contains("changed meanwhile"))
            #expect(try await sender.items()["d"] == nil)
            #expect(
                try await post(&sender, .root, "rename", fields + [("name", "d")]).status == 400)
        }
    }

    @Test func itemsAreMovedToFolders() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let names = try await hub.names(sender.device)
            let outer = try await sender.device.make("outer", .directory, by: names)
            let inner = try await sender.device.make("inner", .directory, in: outer, by: names)
            try await sender.device.make("a", contents: bytes("x"), in: inner, by: names)
            try await sender.device.make("a", contents: bytes("a"), by: names)
            let item = try #require(
                try await sender.items().values.first {
                    $0.placement.parent == .root && $0.name == "a"
                })
            let move = "\(sender.volume)/\(item.id)/move"
            let first = try await sender.browser.get(move)
            #expect(first.prose.contains("outer") && !first.text.contains("Move here"))
            let second = try await sender.browser.get("\(move)?to=\(outer)")
            #expect(second.prose.contains("inner"))
            let full = try await sender.browser.get("\(move)?to=\(inner)")
            let refused = try await sender.browser.post(move, try full.form(to: move))
            #expect(refused.status == 400 && refused.prose.contains("already"))
            let fields = try second.form(to: move)
            let answer = try await sender.browser.post(move, fields)
            #expect(answer["Location"] == "\(sender.volume)/\(item.id)?done=moved")
            let device = sender.device
            func place(_ id: Identifier) async throws -> Identifier? {
                try await device.changes().changes.compactMap {
                    if case .item(let item) = $0, item.id == id {
                        item.placement.parent
                    } else {
                        nil
                    }
                }.last
            }
            #expect(try await place(item.id) == outer)
            // A folder is not moved into itself, and nothing into what is no folder.
            let own = try await form(&sender, outer, "move", page: "/move?to=\(inner)")
            #expect(try await post(&sender, outer, "move", own).status == 400)
            for target in ["\(item.id)", "\(Identifier.random())", "x", ""] {
                let changed = own.map { $0.0 == "to" ? ("to", target) : $0 }
                let status = try await post(&sender, outer, "move", changed).status
                #expect([400, 404].contains(status), "\(target)")
            }
            #expect(try await place(outer) == .root)
            #expect(try await sender.browser.get("\(move)?to=\(item.id)").status == 404)
            let top = "\(sender.volume)/\(Identifier.root)/move"
            #expect(try await sender.browser.get(top).status == 400)
        }
    }

    @Test func whatIsDeletedIsInTheTrash() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let names = try await hub.names(sender.device)
            let folder = try await sender.device.make("folder", .directory, by: names)
            try await sender.device.make("a", contents: bytes("a"), in: folder, by: names)
            let fields = try await form(&sender, folder, "delete")
            let missing = fields.filter { $0.0 != "token" }
            #expect(try await post(&sender, folder, "delete", missing).status == 400)
            // What came into the folder after its page was shown stays, with the folder.
            try await sender.device.make("late", contents: bytes("late"), in: folder, by: names)
            let partly = try await post(&sender, folder, "delete", fields)
            #expect(partly["Location"] == "\(sender.volume)/\(folder)?done=partly")
            #expect(try await Set(sender.items().keys) == ["folder", "late"])
            let again = try await post(
                &sender, folder, "delete", try await form(&sender, folder, "delete"))
            #expect(again["Location"] == sender.volume + "?done=deleted")
            #expect(try await sender.items().isEmpty)
            let list = try await sender.browser.get(sender.volume + "?deleted=1")
            #expect(list.prose.contains("folder"))
            #expect(try await post(&sender, folder, "delete", fields).status == 400)
            #expect(try await post(&sender, .root, "delete", fields).status == 400)
        }
    }

    /// A document that a device has changed after the page was shown stays.
    @Test func whatThePageDidNotShowIsNotDeleted() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            try await sender.send([("a", bytes("one"))])
            let item = try #require(try await sender.items()["a"])
            let fields = try await form(&sender, item.id, "delete")
            let edit = try await sender.save(item, "two")
            let answer = try await post(&sender, item.id, "delete", fields)
            #expect(answer.status == 409 && answer.prose.contains("changed meanwhile"))
            #expect(try await sender.items()["a"]?.current?.id == edit.id)
        }
    }

    // MARK: Texts

    /// The text of the page's field, and the form's fields, as a browser has them.
    private func editor(
        _ sender: inout Sender, _ item: Identifier
    ) async throws -> (text: String, fields: [(String, String)]) {
        let address = "\(sender.volume)/\(item)/edit"
        let page = try await sender.browser.get(address)
        let parts = page.text.components(separatedBy: "</textarea>")[0]
            .components(separatedBy: "<textarea")
        guard parts.count == 2, let start = parts[1].range(of: ">\n") else {
            throw SupportError("no text: \(page.prose)")
        }
        var text = String(parts[1][start.upperBound...])
        for (name, character) in [
            ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&"),
        ] { text = text.replacing(name, with: character) }
        // A browser knows one kind of line ends.
        return (text.replacing("\r\n", with: "\n"), try page.form(to: address))
    }

    private func save(
        _ sender: inout Sender, _ item: Identifier, _ text: String, _ fields: [(String, String)]
    ) async throws -> Surfer.Page {
        let sent = text.replacing("\r\n", with: "\n").replacing("\n", with: "\r\n")
        return try await sender.browser.upload(
            "\(sender.volume)/\(item)/edit", fields + [("text", sent)], [])
    }

    @Test func textsAreEditedAndKeepTheirLineEnds() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let texts = [
                "a.txt": "one\ntwo\n", "b.txt": "one\r\ntwo\r\n",
                "c.txt": "\n\n\u{FEFF}<x> & \"y\"",
                "empty.txt": "", "d": "</textarea><script>",
            ]
            try await sender.send(texts.map { ($0, bytes($1)) })
            for (name, text) in texts {
                let item = try #require(try await sender.items()[name])
                let address = "\(sender.volume)/\(item.id)"
                #expect(try await sender.browser.get(address).text.contains(address + "/edit"))
                let (shown, fields) = try await editor(&sender, item.id)
                #expect(shown == text.replacing("\r\n", with: "\n"), "\(name)")
                let same = try await save(&sender, item.id, shown, fields)
                #expect(same["Location"] == address + "?done=unchanged", "\(name)")
                let answer = try await save(&sender, item.id, shown + "three\n", fields)
                #expect(answer["Location"] == address + "?done=saved", "\(name)")
                let ends = text.contains("\r\n") ? "\r\n" : "\n"
                #expect(try await sender.contents(name) == bytes(text + "three" + ends), "\(name)")
                let now = try #require(try await sender.items()[name])
                #expect(now.current?.parents == [try #require(item.current).id])
            }
        }
    }

    @Test func anEditOfAnOldPageMakesAConflict() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            try await sender.send([("a.txt", bytes("one\n"))])
            let item = try #require(try await sender.items()["a.txt"])
            let (_, fields) = try await editor(&sender, item.id)
            let (_, other) = try await editor(&sender, item.id)
            let late = try await sender.save(item, "of the device\n")
            for (text, fields) in [("of the page\n", fields), ("of another page\n", other)] {
                let answer = try await save(&sender, item.id, text, fields)
                #expect(answer["Location"] == "\(sender.volume)/\(item.id)?done=conflict")
            }
            let now = try #require(try await sender.items()["a.txt"])
            let live = [now.current].compactMap(\.self) + now.conflicts
            #expect(live.count == 3 && live.contains { $0.id == late.id })
        }
    }

    @Test func whatIsNoTextIsNotEdited() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub)
            let long = [UInt8](repeating: 0x61, count: (512 << 10) + 1)
            try await sender.send([
                ("nul.txt", [0x61, 0]), ("latin.txt", [0xE9]), ("mixed.txt", bytes("a\nb\r\n")),
                ("mac.txt", bytes("a\rb")), ("long.txt", long), ("a.txt", bytes("a")),
            ])
            let names = try await hub.names(sender.device)
            let package = try await sender.device.makePackage("p.rtfd", [("T", [1])], names)
            let folder = try await sender.device.make("f", .directory, by: names)
            var refused = [package, folder]
            for name in ["nul.txt", "latin.txt", "mixed.txt", "mac.txt", "long.txt"] {
                refused.append(try #require(try await sender.items()[name]).id)
            }
            for item in refused {
                let answer = try await sender.browser.get("\(sender.volume)/\(item)/edit")
                #expect(answer.status == 400, "\(answer.prose)")
            }
            // What does not fit is not lost: the page has it still.
            let item = try #require(try await sender.items()["a.txt"])
            let (_, fields) = try await editor(&sender, item.id)
            let text = String(decoding: long, as: UTF8.self)
            let answer = try await save(&sender, item.id, text, fields)
            #expect(answer.status == 413 && answer.text.contains(text))
            #expect(try answer.form(to: "\(sender.volume)/\(item.id)/edit").count == fields.count)
            let missing = fields.filter { $0.0 != "token" }
            #expect(try await save(&sender, item.id, "b", missing).status == 400)
            let wrong = fields.map { $0.0 == "shown" ? ("shown", "\(Identifier.random())") : $0 }
            #expect(try await save(&sender, item.id, "b", wrong).status == 404)
            let file = try await sender.browser.upload(
                "\(sender.volume)/\(item.id)/edit", fields, [("b", [1])])
            #expect(file.status == 400)
            #expect(try await sender.contents("a.txt") == bytes("a"))
        }
    }

    @Test func aTextThatExceedsTheQuotaStaysInThePage() async throws {
        try await RunningHub.with { hub in
            var sender = try await Sender(hub, quota: 10_000)
            try await sender.send([("a.txt", bytes("one\n"))])
            let item = try #require(try await sender.items()["a.txt"])
            let (_, fields) = try await editor(&sender, item.id)
            let text = String(repeating: "long text\n", count: 2000)
            let answer = try await save(&sender, item.id, text, fields)
            #expect(answer.status == 507 && answer.prose.contains("quota"))
            #expect(answer.text.contains(text))
            #expect(try await save(&sender, item.id, "two", fields).status == 303)
        }
    }

    @Test func lineEndsAreThoseOfTheDocument() {
        for (text, ends) in [
            ("", EditedText.Ends.lf), ("a", .lf), ("a\nb\n", .lf), ("a\r\nb", .crlf),
            ("\r\n", .crlf),
        ] {
            let read = EditedText(bytes(text))
            #expect(read?.ends == ends && read?.text == text)
            for sent in [text.replacing("\r\n", with: "\n"), text] {
                #expect(EditedText(sent: sent, ends: ends).bytes == bytes(text))
            }
        }
        for text in ["\r", "a\r\nb\n", "a\nb\r\n", "\r\r\n", "\n\r", "a\u{0}"] {
            #expect(EditedText(bytes(text)) == nil)
        }
        #expect(EditedText([0xFF]) == nil)
        #expect(EditedText(sent: "a\rb", ends: .lf).text == "a\nb")
    }
}
