import CLinux
import Control
import Foundation
import Model
import Synchronization
import Testing

/// What clients may do, and how much they may cost the server.
@Suite(.serialized) struct ServerTests {
    private let ask = #"{"id":1,"verb":"status"}"# + "\n"

    /// Threads of this process that answer requests. The suite is serial, so they belong to one
    /// server.
    private var answering: Int {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return tasks.count {
            (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8))
                == "control-answer\n"
        }
    }

    @Test func aLineInPiecesAndManyInOne() throws {
        let client = try FakeDaemonClient()
        for character in ask { client.raw.send(String(character)) }
        #expect(client.raw.receive(lines: 1).contains(#""id":1,"ok":true"#))
        let many = (1...500).map { #"{"id":\#($0),"path":"a","verb":"status"}"# + "\r\n\n" }
        client.raw.send(many.joined())
        let ids = client.raw.receive(lines: 500).split(separator: "\n")
            .compactMap { try? value(Reply<Nothing>.self, from: Array($0.utf8)).id }
        #expect(ids == Array(1...500))
    }

    @Test func nonsenseIsAnsweredAndTheConnectionGoesOn() throws {
        let client = try FakeDaemonClient()
        client.raw.send(
            "hello\n{\"id\":2,\"verb\":\"dance\"}\n{\"id\":3,\"verb\":\"forget\"}\n" + ask)
        let lines = client.raw.receive(lines: 4).split(separator: "\n")
        #expect(lines[0].contains("not one JSON object"))
        #expect(lines[1].contains(#"there is no verb \"dance\""#) && lines[1].contains(#""id":2"#))
        #expect(lines[3].contains(#""ok":true"#))
    }

    @Test func whoStopsSendingIsStillAnswered() throws {
        let client = try FakeDaemonClient()
        client.raw.send(ask + ask)
        shutdown(client.raw.socket, Int32(SHUT_WR))
        #expect(client.raw.receive().count { $0 == "\n" } == 2)
    }

    @Test func anEndlessLineIsCutOff() throws {
        let client = try FakeDaemonClient()
        let piece = String(repeating: "x", count: 1 << 16)
        var sent = 0
        while sent < 64 << 20, client.raw.send(piece) { sent += piece.utf8.count }
        #expect(sent < 4 << 20)
        #expect(client.raw.receive().contains("the line is longer than 1048576 bytes"))
    }

    @Test func halfALineIsNotWaitedForForEver() throws {
        var limits = Limits()
        limits.halfLineSeconds = 0.3
        let client = try FakeDaemonClient(limits)
        client.raw.send(ask + #"{"id":2,"#)
        let lines = client.raw.receive().split(separator: "\n")
        #expect(lines.count == 2 && lines.last?.contains("the request did not end in time") == true)
    }

    @Test func aReaderThatStallsIsDropped() throws {
        var limits = Limits()
        limits.stallSeconds = 0.3
        let client = try FakeDaemonClient(limits)
        // 20 MB is far more than the kernel buffers.
        client.raw.send(#"{"id":1,"length":20000,"verb":"statistics"}"# + "\n" + ask)
        #expect(eventually { client.daemon.service.state.withLock { $0.asked.count } == 1 })
        #expect(eventually { answering == 0 })
        // What was sent before can still be read. Then the connection ends, without an answer to
        // the second request.
        #expect(!client.raw.receive().contains(#""name":"0""#))
    }

    @Test func whatIsAbandonedEnds() throws {
        let daemon = try FakeDaemon()
        for _ in 0..<20 {
            let client = try daemon.raw()
            client.send(#"{"id":1,"path":"a","verb":"wait"}"# + "\n")
            #expect(client.receive(lines: 1).contains("waiting"))
        }
        #expect(eventually { daemon.service.state.withLock { $0.isWaiting } == 0 })
        #expect(eventually { answering == 0 })
    }

    @Test func aCrowdIsRefusedAndForgotten() throws {
        // On a loaded machine the crowd takes longer to connect than a silent client may stay.
        var limits = Limits()
        limits.idleSeconds = 3600
        let daemon = try FakeDaemon(limits: limits)
        let first = try daemon.raw()
        first.send(ask)
        #expect(first.receive(lines: 1).contains(#""ok":true"#))
        var (turnedAway, kept) = (0, [RawClient]())
        let room = Limits().clientsMax - 1
        for _ in 0..<10_000 {
            // Each new client closes its connection after it got an answer; those that were
            // accepted stay silent.
            let client = try daemon.raw()
            if kept.count < room {
                kept.append(client)
            } else {
                turnedAway += client.receive().contains("the volume has too many clients") ? 1 : 0
            }
        }
        #expect(turnedAway == 10_000 - room)
        first.send(ask)
        #expect(first.receive(lines: 1).contains(#""ok":true"#))
        kept.removeAll()
        #expect(
            eventually {
                (try? daemon.client().ask(Request(.status), as: VolumeReport.self)) != nil
            })
    }

    @Test func theSilentMakeRoom() throws {
        var limits = Limits()
        limits.clientsMax = 4
        limits.idleSeconds = 0
        let daemon = try FakeDaemon(limits: limits)
        let silent = try (0..<4).map { _ in try daemon.raw() }
        for _ in 0..<4 {
            let client = try daemon.raw()
            client.send(ask)
            #expect(client.receive(lines: 1).contains(#""ok":true"#))
        }
        #expect(silent[0].receive().isEmpty)
    }

    @Test func whoTakesTurnsLeavesRoomForQuestions() throws {
        var limits = Limits()
        limits.clientsMax = limits.clientsReserved + 8
        limits.idleSeconds = 3600
        let daemon = try FakeDaemon(limits: limits)
        let turn = #"{"id":1,"verb":"locks"}"# + "\n"
        let holders = try (0..<8).map { _ in try daemon.raw() }
        for client in holders {
            client.send(turn)
            #expect(client.receive(lines: 1).contains(#""id":1"#))
        }
        for _ in 0..<100 {
            let client = try daemon.raw()
            client.send(turn)
            #expect(client.receive().contains("too many programs have claims"))
        }
        let client = try daemon.raw()
        client.send(ask)
        #expect(client.receive(lines: 1).contains(#""ok":true"#))
        holders[0].send(turn)
        #expect(holders[0].receive(lines: 1).contains(#""id":1"#))
    }

    @Test func stoppingEndsWhatIsBeingAnswered() throws {
        let daemon = try FakeDaemon()
        let client = try daemon.raw()
        client.send(#"{"id":1,"path":"a","verb":"wait"}"# + "\n")
        #expect(client.receive(lines: 1).contains("waiting"))
        daemon.server.stop()
        #expect(daemon.service.state.withLock { $0.isWaiting } == 0)
        #expect(!FileManager.default.fileExists(atPath: daemon.server.path))
        #expect(throws: RawClient.Refused.self) { try daemon.raw() }
    }
}

/// A client and the daemon it talks to.
private struct FakeDaemonClient {
    let daemon: FakeDaemon
    let raw: RawClient

    init(_ limits: Limits = Limits()) throws {
        daemon = try FakeDaemon(limits: limits)
        raw = try daemon.raw()
    }
}
