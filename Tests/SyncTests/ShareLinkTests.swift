import Control
import Foundation
import Support
import Testing

/// Links to documents for people without an account: real programs and a real hub.
@Suite("Share links", .serialized) struct ShareLinkTests {
    /// What somebody without an account gets.
    private func visit(_ address: String) throws -> (status: String, body: String) {
        let said = try Command("/usr/bin/env", "python3", "-c", Self.visitor, address).succeed()
        return (String(said.prefix(3)), String(said.dropFirst(3)))
    }

    private static let visitor = """
        import sys, urllib.error, urllib.request
        try:
            answer = urllib.request.urlopen(sys.argv[1])
        except urllib.error.HTTPError as error:
            answer = error
        sys.stdout.write(str(answer.status) + answer.read().decode())
        """

    @Test("a document is shared, read, listed and taken back") func life() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "plan.txt", "the plan")
            // It waits until the hub has the document.
            let said = try fleet.fsctl(0, "share", "plan.txt", "--until", "2d")
            let address = said.trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(address.hasPrefix(fleet.hub.address + "/s/"), "\(said)")
            #expect(try visit(address).body.contains("the plan"))
            try fleet.shell(0, "mkdir folder; mv plan.txt folder/moved.txt")
            try fleet.shell(0, "echo new > folder/moved.txt")
            try fleet.settle()
            let file = try visit(address + "/file")
            #expect(file.status == "200" && file.body == "new\n")
            let listed = try fleet.links(0)
            let link = try #require(listed.first)
            #expect(listed.count == 1 && link.path == "folder/moved.txt" && link.maker == "ann")
            #expect(!link.edits && !link.password && !link.ended && link.ends != nil)
            #expect(try fleet.links(0, "folder").map(\.id) == [link.id])
            #expect(try fleet.links(0, "folder/moved.txt").map(\.id) == [link.id])
            try fleet.put(0, "other.txt", "other")
            #expect(try fleet.links(0, "other.txt").isEmpty)
            let short = String(link.id.prefix(8))
            #expect(try fleet.fsctl(0, "share", "--list").contains(short))
            #expect(try fleet.fsctl(0, "share", "--revoke", short).contains("is revoked"))
            #expect(try visit(address).status == "404")
            #expect(try fleet.fsctl(0, "share", "--list").contains("There are no links."))
        }
    }

    @Test("a password is read from standard input, and bad words get a sentence")
    func words() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "plan.txt", "the plan")
            try fleet.shell(0, "mkdir folder")
            try fleet.settle()
            var command = Command(
                Programs.fsctl, "share", "plan.txt", "--edit", "--password", "--json")
            command.directory = fleet.devices[0].path
            command.input = Data("correct horse\n".utf8)
            let made = try LinksReport(said: command.succeed())
            let link = try #require(made.links.first)
            #expect(link.password && link.edits && link.ends == nil)
            let page = try visit(try #require(made.address))
            #expect(page.status == "200" && !page.body.contains("plan"))
            command.input = Data("short\n".utf8)
            for (words, sentence) in [
                (["share"], "Give the document"),
                (["share", "plan.txt", "--list", "--revoke", "x"], "Give one of"),
                (["share", "plan.txt", "--until", "yesterday"], "is not a time to come"),
                (["share", "folder"], "leads to a document, not to a folder"),
                (["share", "nothing"], "nothing"),
                (["share", "."], "not to a volume"),
                (["share", "--revoke", "ffff"], "you have no link ffff"),
                (["share", "plan.txt", "--password"], "at least 8 characters"),
            ] {
                command.arguments = words
                let refused = try command.run()
                #expect(refused.status != 0 && refused.errors.contains(sentence), "\(refused)")
            }
            #expect(try fleet.links(0).count == 1)
        }
    }

    @Test("a reader's device makes no links") func reader() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "plan.txt", "the plan")
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", "reader")
            try fleet.join(as: "bob")
            try fleet.settle()
            var command = Command(Programs.fsctl, "share", "plan.txt")
            command.directory = fleet.devices[1].path
            let refused = try command.run()
            #expect(refused.errors.contains("You are a reader of this volume"), "\(refused)")
            #expect(try fleet.links(1).isEmpty)
        }
    }

    @Test("a hub without pages serves no links") func withoutPages() throws {
        let hub = try HubProcess(arguments: ["--pages", "off"])
        try Fleet.with(1, hub: hub) { fleet in
            try fleet.put(0, "plan.txt", "the plan")
            let said = try fleet.fsctl(0, "share", "plan.txt")
            let address = said.trimmingCharacters(in: .whitespacesAndNewlines)
            let page = try visit(address)
            #expect(page.status == "404" && !page.body.contains("plan"))
        }
    }
}

extension Fleet {
    fileprivate func links(_ index: Int, _ path: String? = nil) throws -> [LinksReport.Link] {
        let words = ["share", "--list", "--json"] + (path.map { [$0] } ?? [])
        var command = Command(Programs.fsctl, arguments: words)
        command.directory = devices[index].path
        return try LinksReport(said: command.succeed()).links
    }
}

extension LinksReport {
    fileprivate init(said: String) throws {
        self = try JSONDecoder().decode(LinksReport.self, from: Data(said.utf8))
    }
}
