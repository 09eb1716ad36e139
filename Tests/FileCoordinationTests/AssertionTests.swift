import Foundation
import Support
import Testing

/// The assertions of Rules.md, one test for each, with real processes on a real mount: who waits
/// for whom. Those about messages to presenters are in AssertionTests+Presenters.
@Suite("Claims: the 27 assertions")
struct AssertionTests {
    @Test("readers do not wait for readers")
    func readersTogether() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("r1", "read:\(root)/a")
            #expect(try two.claim("r2", "read:\(root)/a").text == "old")
            try one.end("r1")
            try two.end("r2")
        }
    }

    @Test(
        "the second of two conflicting claims waits for the first",
        arguments: [
            ("read", "write"), ("write", "read"), ("write", "write"),
        ])
    func exclusion(first: String, second: String) throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("first", "\(first):\(root)/a")
            try two.tell("claim second \(second):\(root)/a")
            #expect(two.waits("second"))
            if first == "write" { try one.file("put \(root)/a new") }
            try one.end("first")
            #expect(try two.wait("granted", "second").text == (first == "write" ? "new" : "old"))
            try two.end("second")
        }
    }

    @Test("a coordinator does not wait for itself")
    func sameCoordinator() throws {
        try withTurns(["a"]) { root in
            let program = try Program()
            try program.claim("w1", "write:\(root)/a on=it")
            try program.claim("w2", "write:\(root)/a on=it")
            try program.claim("r", "read:\(root)/a on=it by=async")
            // Another coordinator of the same process waits.
            try program.tell("claim other write:\(root)/a")
            #expect(program.waits("other"))
            for name in ["w1", "w2", "r"] { try program.end(name) }
            try program.wait("granted", "other")
            try program.end("other")
        }
    }

    @Test("coordinators of one purpose do not wait for each other, across processes")
    func samePurpose() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("w1", "write:\(root)/a purpose=together")
            try two.claim("w2", "write:\(root)/a purpose=together")
            try two.end("w2")
            try one.end("w1")
        }
    }

    @Test("kill -9 of a process ends its claims")
    func killedHolder() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("w1", "write:\(root)/a")
            try two.tell("claim w2 write:\(root)/a")
            #expect(two.waits("w2"))
            one.kill9()
            try two.wait("granted", "w2")
            try two.end("w2")
        }
    }

    @Test("kill -9 of a presenter that is asked to relinquish lets the claim go on")
    func killedPresenter() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.present("p", "\(root)/a holds=relinquish")
            try two.tell("claim w write:\(root)/a")
            try one.wait("message", "p", "relinquishToWriter")
            #expect(two.waits("w"))
            one.kill9()
            try two.wait("granted", "w")
            try two.end("w")
        }
    }

    @Test("an accessor that throws ends its access")
    func throwing() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("w1", "write:\(root)/a")
            try two.tell("claim w2 write:\(root)/a")
            try one.tell("throw w1")
            #expect(try one.wait("ended", "w1").error == "thrown")
            try two.wait("granted", "w2")
            try two.end("w2")
        }
    }

    @Test(
        "a claim on an item that is moved meanwhile gets its new place",
        arguments: ["read", "write", "write+forMerging", "write+forDeleting", "write+forMoving"])
    func movedWhileWaiting(access: String) throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("mover", "write+forMoving:\(root)/a write+forReplacing:\(root)/b")
            try two.tell("claim waiting \(access):\(root)/a")
            #expect(two.waits("waiting"))
            #expect(try one.file("rename \(root)/a \(root)/b").error == nil)
            try one.end("mover")
            let granted = try two.wait("granted", "waiting")
            #expect(granted.paths == ["\(root)/b"] && granted.text == "old")
            try two.end("waiting")
        }
    }

    @Test("a claim to replace an item that is moved meanwhile stays at its place")
    func movedWhileReplacing() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("mover", "write+forMoving:\(root)/a write+forReplacing:\(root)/b")
            try two.tell("claim waiting write+forReplacing:\(root)/a")
            #expect(two.waits("waiting"))
            #expect(try one.file("rename \(root)/a \(root)/b").error == nil)
            try one.end("mover")
            #expect(try two.wait("granted", "waiting").paths == ["\(root)/a"])
            try two.end("waiting")
        }
    }

    @Test("a claim on an item that is deleted meanwhile is granted, and finds nothing")
    func deletedWhileWaiting() throws {
        try withTurns(["a"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("x", "write+forDeleting:\(root)/a")
            try two.tell("claim r read:\(root)/a")
            #expect(two.waits("r"))
            #expect(try one.file("remove \(root)/a").error == nil)
            try one.end("x")
            let granted = try two.wait("granted", "r")
            #expect(granted.paths == ["\(root)/a"] && granted.text == nil)
            try two.end("r")
        }
    }

    @Test("deleting a directory waits for a reader deep inside")
    func deletingWaitsDeep() throws {
        try withTurns(["d/e/f"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("r", "read:\(root)/d/e/f")
            try two.tell("claim x write+forDeleting:\(root)/d")
            #expect(two.waits("x"))
            try one.end("r")
            try two.wait("granted", "x")
            try two.end("x")
        }
    }

    @Test("reading in a directory that is being deleted waits, and finds nothing")
    func readingWaitsForDeleting() throws {
        try withTurns(["d/e/f"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("x", "write+forDeleting:\(root)/d")
            try two.tell("claim r read:\(root)/d/e/f")
            #expect(two.waits("r"))
            #expect(try one.file("remove \(root)/d").error == nil)
            try one.end("x")
            #expect(try two.wait("granted", "r").text == nil)
            try two.end("r")
        }
    }

    @Test(
        "reading or updating a directory does not conflict inside it", arguments: ["read", "write"])
    func directoriesAreShallow(access: String) throws {
        try withTurns(["d/f"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("whole", "\(access):\(root)/d")
            try two.claim("part", "write:\(root)/d/f")
            try two.end("part")
            try one.end("whole")
        }
    }

    @Test("a package is one item: writing a part waits for the reader of another")
    func packages() throws {
        try withTurns(["p.rtfd/x", "p.rtfd/y"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("x", "read:\(root)/p.rtfd/x")
            try two.claim("too", "read:\(root)/p.rtfd/y")
            try two.end("too")
            try two.tell("claim y write:\(root)/p.rtfd/y")
            #expect(two.waits("y"))
            try one.end("x")
            try two.wait("granted", "y")
            try two.end("y")
        }
    }

    @Test("crossing pairs do not deadlock, and no update is lost")
    func crossing() throws {
        try withTurns(["a", "b"]) { root in
            for name in ["a", "b"] {
                try Data("0".utf8).write(to: URL(filePath: "\(root)/\(name)"))
            }
            let programs = [try Program(), try Program(), try Program()]
            let rounds = 60
            for (index, program) in programs.enumerated() {
                let pair = index % 2 == 0 ? "\(root)/a \(root)/b" : "\(root)/b \(root)/a"
                try program.tell("stress s \(pair) \(rounds)")
            }
            for program in programs {
                let said = try wait(seconds: 60, for: "the stress to end") {
                    program.has("stressed", "s")
                }
                #expect(said.error == nil)
            }
            // In a third of the rounds both numbers are increased, in the others one.
            let sum = try ["a", "b"].map { name in
                Int(try String(contentsOfFile: "\(root)/\(name)", encoding: .utf8)) ?? 0
            }.reduce(0, +)
            #expect(sum == programs.count * (rounds / 3 * 2 + rounds / 3 * 2))
        }
    }

    @Test("a call that is cancelled while waiting throws, and so does every later call")
    func cancelling() throws {
        try withTurns(["a", "b"]) { root in
            let (one, two) = (try Program(), try Program())
            try one.claim("w", "write:\(root)/a")
            for (index, way) in ["sync", "async", "queue"].enumerated() {
                try two.tell("claim c\(index) write:\(root)/a on=c\(index) by=\(way)")
                #expect(two.waits("c\(index)"))
                try two.tell("cancel c\(index)")
                #expect(try two.wait("ended", "c\(index)").code == "cancelled")
                try two.tell("claim later\(index) read:\(root)/b on=c\(index) by=\(way)")
                #expect(try two.wait("ended", "later\(index)").code == "cancelled")
                #expect(two.has("granted", "later\(index)") == nil)
            }
            try one.end("w")
            // No claim is left.
            try two.claim("other", "write:\(root)/a")
            try two.end("other")
        }
    }
}
