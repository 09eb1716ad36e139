import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// What visitors of a link may change, and the password of a link.
struct LinkEditingTests {
    typealias Scene = LinkOperationTests.Scene

    enum Maker: CaseIterable { case owner, editor }

    @Test("a link allows what its maker has said", arguments: Maker.allCases, [true, false])
    func rights(_ maker: Maker, edits: Bool) async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let device = maker == .owner ? scene.anna : scene.bert
            let link = try await device.link(scene.item, edits: edits)
            var visitor = Surfer(hub.url)
            let page = try await visitor.get(link.address)
            #expect(page.text.contains(link.address + "/edit") == edits)
            #expect(page.text.contains(link.address + "/upload") == edits)
            #expect(try await visitor.get(link.address + "/edit").status == (edits ? 200 : 404))
            var token = page.fields("token").first ?? ""
            if !edits {
                // The token that a form would have.
                let other = try await device.link(scene.item, edits: true).address
                token = try await visitor.get(other).fields("token").first ?? ""
            }
            let shown = try #require(try await scene.state.current)
            let fields = [("token", token), ("shown", shown.id.description)]
            let sent = try await visitor.upload(
                link.address + "/upload", fields, [("other name.txt", bytes("new"))])
            let state = try await scene.state
            guard edits else {
                #expect(sent.status == 404 && state.current == shown)
                return
            }
            #expect(sent.status == 303 && sent["Location"] == link.address + "?done=uploaded")
            let version = try #require(state.current)
            #expect(version.parents == [shown.id] && state.conflicts.isEmpty)
            #expect(version.note.person == (maker == .owner ? "anna" : "bert"))
            #expect(version.note.deviceName == "Link \(link.id.description.prefix(8))")
            #expect(state.name == "plan.txt")
            #expect(try await visitor.get(link.address + "/file").bytes == bytes("new"))
            try await hub.checkIsSound()
        }
    }

    @Test("a text is edited in the page") func texts() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item, edits: true).address
            var visitor = Surfer(hub.url)
            let page = try await visitor.get(link + "/edit")
            let fields = try page.form(to: link + "/edit")
            #expect(page.text.contains("plan</textarea>"))
            #expect(!page.text.contains(scene.anna.volume.epoch.description))
            let saved = try await visitor.upload(link + "/edit", fields + [("text", "plan B")], [])
            #expect(saved.status == 303 && saved["Location"] == link + "?done=saved")
            #expect(try await visitor.get(link + "/file").bytes == bytes("plan B"))
            // The page has shown an older version by now, so both are kept.
            try await scene.save("plan C")
            let late = try await visitor.upload(link + "/edit", fields + [("text", "plan D")], [])
            #expect(late["Location"] == link + "?done=conflict")
            #expect(try await scene.state.conflicts.count == 1)
            #expect(try await visitor.get(late["Location"]).prose.contains("conflict"))
            try await hub.checkIsSound()
        }
    }

    @Test("a version that is sent late is kept as a conflict, and forms of others are refused")
    func uploads() async throws {
        try await RunningHub.with { hub in
            var scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item, edits: true).address
            var visitor = Surfer(hub.url)
            let fields = try await visitor.get(link).form(to: link + "/upload")
            try await scene.save("newer")
            let sent = try await visitor.upload(link + "/upload", fields, [("a", bytes("mine"))])
            #expect(sent["Location"] == link + "?done=conflict")
            let state = try await scene.state
            #expect(state.conflicts.count == 1)
            for (fields, files, more) in [
                ([], [("a", bytes("x"))], [:]),
                ([("token", "wrong"), ("shown", "")], [("a", bytes("x"))], [:]),
                (fields, [("a", bytes("x"))], ["Sec-Fetch-Site": "cross-site"]),
                (fields, [("a", bytes("x")), ("b", bytes("y"))], [:]),
                (fields, [], [:]),
                (
                    [fields[0], ("shown", Identifier.random().description)], [("a", bytes("x"))],
                    [:]
                ),
            ] as [([(String, String)], [(name: String, contents: [UInt8])], [String: String])] {
                let refused = try await visitor.upload(link + "/upload", fields, files, more)
                #expect([400, 404].contains(refused.status), "\(fields) \(refused.status)")
            }
            #expect(try await scene.state == state)
        }
    }

    @Test("what visitors send counts for the volume's owner") func quotas() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let administration = try hub.administration()
            try await administration.setQuota(of: "anna", 20_000)
            try administration.close()
            let link = try await scene.bert.link(scene.item, edits: true).address
            var visitor = Surfer(hub.url)
            let fields = try await visitor.get(link).form(to: link + "/upload")
            let large = [UInt8](repeating: 1, count: 100_000)
            let refused = try await visitor.upload(link + "/upload", fields, [("a", large)])
            #expect(refused.status == 507)
            #expect(try await scene.state.current?.size == 4)
        }
    }

    // MARK: Passwords

    private let password = "correct horse"

    @Test("a link with a password says nothing of the document before") func entrance()
        async throws
    {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(
                scene.item, edits: true, password: password
            ).address
            var visitor = Surfer(hub.url)
            let form = try await visitor.get(link)
            #expect(form.status == 200 && !form.text.contains("plan"))
            #expect(form.prose.contains("anna") && form.all("Set-Cookie").isEmpty)
            for path in ["/file", "/preview", "/edit"] {
                let page = try await visitor.get(link + path)
                #expect(page.status == 303 && page["Location"] == link)
            }
            let early = try await visitor.upload(link + "/upload", [], [("a", bytes("x"))])
            #expect(early.status == 303)
            let fields = try form.form(to: link + "/password")
            let wrong = try await visitor.post(
                link + "/password", fields + [("password", "correct hors")])
            #expect(wrong.status == 403 && wrong.prose.contains("This password is wrong."))
            let foreign = try await visitor.post(
                link + "/password", [("password", password)])
            #expect(foreign.status == 400 && foreign.all("Set-Cookie").isEmpty)
            let right = try await visitor.post(
                link + "/password", fields + [("password", password)])
            #expect(right.status == 303 && right["Location"] == link)
            let cookie = right["Set-Cookie"]
            #expect(cookie.contains("; Path=\(link); HttpOnly; SameSite=Strict"))
            #expect(try await visitor.get(link).text.contains(">plan</pre>"))
            #expect(try await visitor.get(link + "/file").bytes == bytes("plan"))
            // The cookie opens no other link, and not for ever.
            let other = try await scene.anna.link(scene.item, password: password).address
            #expect(try await !visitor.get(other).text.contains("plan"))
            hub.advance(seconds: 12 * 3600 + 1)
            #expect(try await !visitor.get(link).text.contains("plan"))
            for forged in ["", "-", "9000000000000000000-", "9000000000000000000-00"] {
                visitor.cookies = ["concord-link": forged]
                #expect(try await !visitor.get(link).text.contains("plan"), "\(forged)")
            }
        }
    }

    @Test("wrong passwords are counted with wrong codes") func guessing() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item, password: password).address
            var visitor = Surfer(hub.url)
            let fields = try await visitor.get(link).form(to: link + "/password")
            var statuses: [Int] = []
            for number in 0..<11 {
                statuses.append(
                    try await visitor.post(
                        link + "/password", fields + [("password", "guess \(number)")]
                    ).status)
            }
            #expect(statuses == Array(repeating: 403, count: 10) + [429])
            let late = try await visitor.post(
                link + "/password", fields + [("password", password)])
            #expect(late.status == 429 && late.all("Set-Cookie").isEmpty)
            hub.advance(seconds: 61)
            let right = try await visitor.post(
                link + "/password", fields + [("password", password)])
            #expect(right.status == 303)
        }
    }

    @Test("a huge form, and one of another type, are refused") func hostileForms() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item, password: password).address
            var visitor = Surfer(hub.url)
            let fields = try await visitor.get(link).form(to: link + "/password")
            let huge = try await visitor.post(
                link + "/password", fields + [("password", String(repeating: "a", count: 70_000))])
            #expect(huge.status == 413)
            let other = try await visitor.send(
                "POST", link + "/password", bytes("{}"), ["Content-Type": "application/json"])
            #expect(other.status == 415)
        }
    }

    /// Browsers send no strict cookies when a page of another site leads to the link.
    @Test("a visitor with the password comes from another site") func crossSite() async throws {
        try await RunningHub.with { hub in
            let scene = try await Scene(hub)
            let link = try await scene.anna.link(scene.item, password: password).address
            var visitor = Surfer(hub.url)
            let site = ["Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"]
            let page = try await visitor.get(link, method: "GET", site)
            #expect(page.status == 200 && page["Refresh"] == "0")
        }
    }
}
