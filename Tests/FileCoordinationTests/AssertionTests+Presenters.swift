import Foundation
import Support
import Testing

/// The assertions about the messages that presenters get.
extension AssertionTests {
    @Test("presenters of nested packages get messages at all levels")
    func nestedPackages() throws {
        try withTurns(["p.rtfd/q.rtfd/z"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/p.rtfd")
            try one.present("q", "\(root)/p.rtfd/q.rtfd")
            try one.present("z", "\(root)/p.rtfd/q.rtfd/z")
            try one.present("plain", root)
            try two.claim("w", "write:\(root)/p.rtfd/q.rtfd/z")
            for name in ["p", "q", "z"] { #expect(one.messages(name) == ["relinquishToWriter"]) }
            #expect(one.messages("plain").isEmpty)
            #expect(try two.file("put \(root)/p.rtfd/q.rtfd/z new").error == nil)
            try two.end("w")
            for name in ["p", "q", "z"] { try one.wait("message", name, "reacquire") }
            let path = "\(root)/p.rtfd/q.rtfd/z"
            try one.wait("message", "z", "changed")
            for name in ["p", "q", "plain"] {
                #expect(try one.wait("message", name, "subitemChanged").path == path)
            }
        }
    }

    @Test("deleting in a package is a subitem's deletion for its presenter")
    func deletingInPackage() throws {
        try withTurns(["p.rtfd/x"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/p.rtfd")
            try one.present("x", "\(root)/p.rtfd/x closes")
            try two.claim("x", "write+forDeleting:\(root)/p.rtfd/x")
            let said = try one.wait("message", "p", "accommodateSubitemDeletion")
            #expect(said.path == "\(root)/p.rtfd/x")
            #expect(!one.messages("p").contains("accommodateDeletion"))
            #expect(one.messages("x").prefix(2) == ["relinquishToWriter", "accommodateDeletion"])
            try two.end("x")
        }
    }

    @Test("reading makes presenters save, but reading without changes does not")
    func saving() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/a saves=new")
            #expect(try two.claim("r1", "read+withoutChanges:\(root)/a").text == "old")
            try two.end("r1")
            #expect(one.messages("p").allSatisfy { $0 != "save" })
            #expect(try two.claim("r2", "read:\(root)/a").text == "new")
            try two.end("r2")
            #expect(one.messages("p").contains("save"))
        }
    }

    @Test("the error of a presenter that cannot save is thrown to the reader")
    func savingFails() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/a fails=no_paper_left")
            for way in ["sync", "async", "queue"] {
                try two.tell("claim \(way) read:\(root)/a by=\(way)")
                let said = try two.wait("ended", way)
                #expect(said.code == "refused" && said.error?.contains("no paper left") == true)
                #expect(two.has("granted", way) == nil)
            }
            // The presenter has reacquired its item.
            try wait(for: "brackets to close") {
                one.messages("p").count { $0 == "reacquire" } == 3 ? true : nil
            }
        }
    }

    @Test("a presenter writes while the reader that asked for it waits")
    func writingBeforeTheReader() throws {
        try withTurns(["a"]) { root in
            let programs = [try Program(), try Program(), try Program()]
            try programs[0].present("p", "\(root)/a saves=new holds=save")
            try programs[1].tell("claim r read:\(root)/a")
            try programs[0].wait("message", "p", "save")
            // The save also precedes claims that have been queued meanwhile.
            try programs[2].tell("claim w write:\(root)/a")
            #expect(programs[2].waits("w") && programs[1].waits("r"))
            try programs[0].tell("answer p")
            try programs[0].wait("message", "p", "saved")
            #expect(try programs[1].wait("granted", "r").text == "new")
            try programs[1].end("r")
            try programs[2].wait("granted", "w")
            try programs[2].end("w")
        }
    }

    @Test("a presenter gets no messages about its own accesses")
    func ownAccesses() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("own", "\(root)/a")
            try two.present("other", "\(root)/a")
            try one.claim("w", "write:\(root)/a as=own")
            try one.file("put \(root)/a new")
            try one.end("w")
            try two.wait("message", "other", "changed")
            try two.wait("message", "other", "reacquire")
            #expect(one.messages("own").isEmpty)
        }
    }

    @Test("a presenter is told of versions, also of those that it causes itself")
    func ownVersions() throws {
        try withTurns(["a"]) { root in
            let one = try Program()
            try one.present("own", "\(root)/a")
            // A write through a handle of contents that were replaced meanwhile makes a conflict
            // version.
            let script = """
                exec 3<>'\(root)/a'; sleep 1.2; echo newer > '\(root)/b'
                mv '\(root)/b' '\(root)/a'; echo late >&3
                """
            try Command("sh", "-c", script).succeed()
            try one.wait("message", "own", "versionGained")
        }
    }

    @Test("all messages of an access come between relinquishing and reacquiring")
    func brackets() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/a")
            try two.claim("m", "write+forMerging:\(root)/a")
            #expect(one.messages("p") == ["relinquishToWriter", "save"])
            try two.file("put \(root)/a new")
            try two.file("rename \(root)/a \(root)/b")
            try two.end("m")
            try one.wait("message", "p", "reacquire")
            let heard = one.messages("p")
            #expect(heard.first == "relinquishToWriter" && heard.last == "reacquire")
            #expect(Set(heard.dropFirst(2).dropLast()) == ["changed", "moved"])
            // No message follows.
            usleep(300_000)
            #expect(one.messages("p") == heard)
        }
    }

    @Test("accesses overlap: another presenter saves during a read")
    func overlappingBrackets() throws {
        try withTurns(["a"]) { root in
            let programs = [try Program(), try Program(), try Program()]
            try programs[0].present("editor", "\(root)/a saves=new")
            try programs[1].present("viewer", "\(root)/a")
            #expect(try programs[2].claim("r", "read:\(root)/a").text == "new")
            try programs[2].end("r")
            try wait(for: "two reacquirers") {
                programs[1].messages("viewer").count { $0 == "reacquire" } == 2 ? true : nil
            }
            let heard = programs[1].messages("viewer")
            let inner = try #require(heard.firstIndex(of: "relinquishToWriter"))
            let outer = try #require(heard.firstIndex(of: "relinquishToReader"))
            #expect(outer < inner && heard.firstIndex(of: "reacquire")! > inner)
        }
    }

    @Test("preparing makes presenters save without relinquishing, also contained ones")
    func preparing() throws {
        try withTurns(["d/e/f", "g"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("f", "\(root)/d/e/f saves=new")
            try one.present("g", "\(root)/g")
            try two.tell("prepare all read:\(root)/d write+forDeleting:\(root)/g")
            #expect(try two.wait("prepared", "all").error == nil)
            #expect(one.messages("f") == ["save", "saved"])
            #expect(one.messages("g") == ["accommodateDeletion"])
            // Preparing holds no claim.
            let other = try Program()
            try other.claim("w", "write:\(root)/d/e/f")
            try other.end("w")
        }
    }

    @Test("reading by a plain program makes presenters save, too")
    func plainReader() throws {
        try withTurns(["a"]) { root in
            let one = try Program()
            try one.present("editor", "\(root)/a saves=new")
            #expect(try Command("cat", "\(root)/a").succeed() == "new")
        }
    }

    @Test("if a presenter cannot save, a plain program reads what is on the disk")
    func savingFailsForPlainPrograms() throws {
        try withTurns(["a"]) { root in
            let one = try Program()
            try one.present("editor", "\(root)/a fails=no_paper_left")
            #expect(try Command("cat", "\(root)/a").succeed() == "old")
            try Command("sh", "-c", "echo more >> '\(root)/a'").succeed()
            #expect(one.messages("editor").contains("save"))
        }
    }
}
