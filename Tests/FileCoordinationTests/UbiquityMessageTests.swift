import Control
import Foundation
import Support
import Testing

@testable import FileCoordination

/// Presenters are asked before the contents of their items are evicted, and told when it changes
/// where the contents are.
@Suite("Presenters and where contents are", .serialized) struct UbiquityMessageTests {
    /// Runs `body` with a document that the hub has, and its path on the second device.
    private func withDocument(_ body: (Fleet, String) throws -> Void) throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "text")
            try fleet.settle()
            try body(fleet, "\(fleet.devices[1].path)/a.txt")
        }
    }

    private func state(_ path: String) -> String {
        String(decoding: FilePath(path).attribute("user.concord.state") ?? [], as: UTF8.self)
    }

    @Test("contents are evicted when all presenters of the document agree, and not before")
    func agreed() throws {
        try withDocument { _, path in
            let program = try Program()
            try program.present("a", "\(path) hears=evict")
            try program.present("b", "\(path) hears=evict holds=evict")
            let evicting = try Beside("evict", path)
            for name in ["a", "b"] { try program.wait("message", name, "accommodateEviction") }
            #expect(state(path) == "current")
            try program.tell("answer b")
            #expect(try evicting.waitForEnd() == 0)
            #expect(state(path) == "dataless")
        }
    }

    @Test("they stay when one refuses, and when it does not hear the question")
    func refused() throws {
        try withDocument { _, path in
            let program = try Program()
            try program.present("a", "\(path) hears=evict keeps=I_need_it")
            let said = try Programs.fsctl("evict", path).run()
            #expect(said.status != 0 && said.errors.contains("shows it (I need it)"))
            try program.tell("retire a")
            try program.wait("retired", "a")
            try program.present("b", "\(path) hears=change")
            let other = try Programs.fsctl("evict", path).run()
            #expect(other.status != 0 && other.errors.contains("shows it:"))
            #expect(state(path) == "current")
        }
    }

    @Test("a program that ends while it is asked agrees")
    func ended() throws {
        try withDocument { _, path in
            let program = try Program()
            try program.present("a", "\(path) hears=evict holds=evict")
            let evicting = try Beside("evict", path)
            try program.wait("message", "a", "accommodateEviction")
            program.kill9()
            #expect(try evicting.waitForEnd() == 0)
        }
    }

    @Test("observed attributes: evicted, downloaded, saved and not sent yet, sent")
    func attributes() throws {
        try withDocument { _, path in
            let program = try Program()
            try program.present("a", "\(path) hears=ubiquity,evict")
            func wait(_ attribute: String, _ count: Int) throws {
                try Support.wait(seconds: 30, for: "\(attribute) \(count); \(program.all)") {
                    let all = program.messages("a").filter { $0 == "ubiquity \(attribute)" }
                    return all.count >= count ? true : nil
                }
            }
            try Programs.fsctl("evict", path).succeed()
            try wait("downloadingStatus", 1)
            try Programs.fsctl("download", path).succeed()
            try wait("downloadingStatus", 2)
            #expect(!program.messages("a").contains("ubiquity isDownloading"))
        }
    }

    @Test("the presenter of the documentation shows where contents are, and keeps them")
    func documentation() throws {
        try withDocument { _, path in
            let badge = PictureBadge(URL(filePath: path))
            defer { FileCoordinator.removeFilePresenter(badge) }
            func wait(for text: String) throws {
                try Support.wait(seconds: 30, for: "\"\(text)\"") {
                    badge.text.withLock { $0 } == text ? true : nil
                }
            }
            try wait(for: "")
            badge.isLookedAt.withLock { $0 = true }
            #expect(try Programs.fsctl("evict", path).run().status != 0)
            badge.isLookedAt.withLock { $0 = false }
            try Programs.fsctl("evict", path).succeed()
            try wait(for: "in the cloud")
            _ = try text(path)
            try wait(for: "")
        }
    }

    @Test("the documentation contains that presenter")
    func article() throws {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
        let root = here.deletingLastPathComponent().deletingLastPathComponent()
        let article = root.appending(
            path: "Sources/FileCoordination/FileCoordination.docc/Contents.md")
        let code = try text(here.appending(path: "PictureBadge.swift").path)
        let lines = code.split(separator: "\n", omittingEmptySubsequences: false)
        let indented = lines.map { $0.isEmpty ? "" : "    \($0)" }.joined(separator: "\n")
        #expect(try text(article.path).contains(indented))
    }
}
