import Coordination
import Testing

/// Claims of readers who may not write the item, and the claims that wait for them.
@Suite struct YieldingTests {
    private func read(_ place: String) -> Request {
        Request(
            [.init(.read([]), Stage.path(place), yields: true)],
            purposes: [Purpose("weak \(place)")], clientSession: ClientSession(7))
    }

    private func stopWaitingForYielding(_ id: UInt64, in stage: inout Stage) -> [String] {
        stage.step(.yieldExpired(ClaimID(id)))
    }

    @Test(arguments: [Request.Manner.plain(goesAhead: false), .coordinated])
    func whoMayWriteGoesAheadAfterATime(_ manner: Request.Manner) {
        var stage = Stage()
        #expect(stage.step(.requested(ClaimID(1), read("f"))) == ["granted 1 /f"])
        #expect(stage.ask(2, "U f", manner: manner) == [])
        #expect(stopWaitingForYielding(2, in: &stage) == ["granted 2 /f"])
        // Requesters without the right to write continue to wait.
        #expect(stage.ask(3, "U f") == [])
    }

    @Test func aReaderWhoCouldWriteIsWaitedFor() {
        var stage = Stage()
        _ = stage.ask(1, "R f")
        _ = stage.step(.requested(ClaimID(2), read("f")))
        #expect(stage.ask(3, "U f", manner: .plain(goesAhead: false)) == [])
        #expect(stopWaitingForYielding(3, in: &stage) == [])
        #expect(stage.release(1) == ["granted 3 /f"])
    }

    @Test func aWriterIsWaitedForThoughReadersYield() {
        var stage = Stage()
        _ = stage.step(.requested(ClaimID(1), read("f")))
        _ = stage.ask(2, "U D/g")
        #expect(stage.ask(3, "U f + U D/g") == [])
        #expect(stopWaitingForYielding(3, in: &stage) == [])
        #expect(stage.release(2) == ["granted 3 /f /D/g"])
    }

    @Test func whatReadersWriteDoesNotYield() {
        var stage = Stage()
        let both = Request(
            [
                .init(.read([]), Stage.path("f"), yields: true),
                .init(.write(.update), Stage.path("g"), yields: true),
            ], purposes: [Purpose("both")], clientSession: ClientSession(7))
        _ = stage.step(.requested(ClaimID(1), both))
        #expect(stage.ask(2, "U g", manner: .plain(goesAhead: false)) == [])
        #expect(stopWaitingForYielding(2, in: &stage) == [])
        #expect(stage.overdue(2) == ["refused 2 busy"])
        #expect(stage.ask(3, "U f", manner: .plain(goesAhead: false)) == [])
        #expect(stopWaitingForYielding(3, in: &stage) == ["granted 3 /f"])
    }
}
