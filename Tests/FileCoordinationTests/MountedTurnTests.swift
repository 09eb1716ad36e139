import Foundation
import Support
import Testing

/// Behaviour of the library on real mounts beyond the assertions.
@Suite("Claims on a mount") struct MountedTurnTests {
    @Test("waiting calls fail when the daemon is killed; presenters return with the volume")
    func remount() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a"
            try Data("old".utf8).write(to: URL(filePath: path))
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(path) saves=new")
            try one.claim("w", "write:\(path)")
            try two.tell("claim r read:\(path)")
            #expect(two.waits("r"))
            try volume.kill9()
            let said = try two.wait("ended", "r")
            #expect(said.code == "unavailable" && said.error?.contains("mount") == true)
            // A new call finds the dead mount, and throws, too.
            try two.tell("claim again read:\(path)")
            #expect(try two.wait("ended", "again").code == "unavailable")
            try one.end("w")

            try volume.mount()
            try one.wait("message", "p", "changed")
            #expect(try two.claim("after", "read:\(path)").text == "new")
            try two.end("after")
        }
    }

    @Test("a nested claim precedes claims that wait for the outer one")
    func nested() throws {
        try withTurns(["a", "b"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("outer", "write:\(root)/a on=it")
            try two.tell("claim waiting write:\(root)/a write:\(root)/b")
            #expect(two.waits("waiting"))
            // The other claim also concerns b, so the nested call would wait for it.
            for (index, way) in ["sync", "async", "queue"].enumerated() {
                try one.claim("inner\(index)", "write:\(root)/b on=it by=\(way)")
                try one.file("put \(root)/b new")
                try one.end("inner\(index)")
            }
            try one.end("outer")
            try two.wait("granted", "waiting")
            try two.end("waiting")
        }
    }

    @Test("two calls that name two volumes in opposite orders do not deadlock")
    func twoVolumes() throws {
        try withTurns(["a"]) { first in
            try withTurns(["b"]) { second in
                for path in ["\(first)/a", "\(second)/b"] {
                    try Data("0".utf8).write(to: URL(filePath: path))
                }
                let programs = [try Program(), try Program()]
                try programs[0].tell("stress s \(first)/a \(second)/b 60")
                try programs[1].tell("stress s \(second)/b \(first)/a 60")
                for program in programs {
                    let said = try wait(seconds: 60, for: "the stress to end") {
                        program.has("stressed", "s")
                    }
                    #expect(said.error == nil)
                }
                let sum = try ["\(first)/a", "\(second)/b"].map {
                    Int(try String(contentsOfFile: $0, encoding: .utf8)) ?? 0
                }.reduce(0, +)
                #expect(sum == 2 * 80)
            }
        }
    }

    @Test("a coordinator that does not wait throws busy")
    func trying() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("w", "write:\(root)/a")
            try two.tell("claim r read:\(root)/a try")
            #expect(try two.wait("ended", "r").code == "busy")
            try one.end("w")
            try two.claim("r2", "read:\(root)/a try")
            try two.end("r2")
        }
    }

    @Test("a new document's presenter gets messages as soon as the document exists")
    func newDocument() throws {
        try withTurns([]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "-")
            try one.claim("make", "write+forReplacing:\(root)/new as=p")
            try one.file("put \(root)/new first")
            try one.tell("show p \(root)/new")
            try one.end("make")
            try two.claim("w", "write:\(root)/new")
            #expect(one.messages("p") == ["relinquishToWriter"])
            try two.end("w")
        }
    }
}

/// The presenter in the documentation.
@Suite("The documented presenter") struct DocumentedEditorTests {
    @Test("it is what the article shows")
    func text() throws {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
        let code = try String(
            contentsOf: here.deletingLastPathComponent().appending(
                path: "TurnProgram/Editor.swift"),
            encoding: .utf8)
        let catalogue = "Sources/FileCoordination/FileCoordination.docc/Presenting.md"
        let article = here.deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: catalogue)
        #expect(try String(contentsOf: article, encoding: .utf8).contains(code))
    }

    @Test("it saves before others read, and follows what they write and where they move it")
    func working() throws {
        try withTurns(["a"]) { root in
            // The editor runs in another process, because a child's accesses would count as its
            // own.
            let (editor, other) = (try Program(), try Program())
            #expect(try editor.file("edit e \(root)/a").text == "old")
            try editor.file("type e typed")
            #expect(try other.claim("r", "read:\(root)/a").text == "typed")
            try other.end("r")
            try other.claim("w", "write:\(root)/a")
            try other.file("put \(root)/a theirs")
            try other.file("rename \(root)/a \(root)/b")
            try other.end("w")
            try wait(for: "their text") {
                let shown = try editor.file("text e")
                return shown.text == "theirs" && shown.path == "\(root)/b" ? true : nil
            }
            try editor.file("type e mine")
            #expect(try Command("cat", "\(root)/b").succeed() == "mine")
        }
    }
}
