import Coordination
import Testing

/// Rules.md, C7 and C8: sequences of steps.
@Suite struct SequenceTests {
    // MARK: C8

    @Test func aCopyOfADirtyDocument() {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f", clientSession: 3)
        #expect(stage.ask(1, "R /f") == ["P1 reader 1", "P2 reader 1"])
        #expect(stage.answer(2, 1) == [])
        #expect(stage.answer(1, 1) == ["P1 save 1", "P2 save 1"])
        #expect(stage.answer(2, 1) == [])
        // This period is nested inside that of the other claim.
        #expect(stage.ask(2, "U /f", of: 1) == ["P2 writer 2"])
        #expect(stage.answer(2, 2) == ["granted 2 /f"])
        #expect(
            stage.step(.changed(Stage.path("/f"), by: [PresenterID(1)])) == ["P2 changed"])
        #expect(stage.release(2) == ["P2 reacquire 2"])
        #expect(stage.answer(1, 1) == ["granted 1 /f"])
        #expect(stage.release(1) == ["P1 reacquire 1", "P2 reacquire 1"])
    }

    @Test func aRemoteChangeWithARename() {
        var stage = Stage()
        stage.present(1, "/f")
        #expect(stage.askAndAnswer(1, "G /f") == ["P1 writer 1", "P1 save 1", "granted 1 /f"])
        #expect(stage.move("/f", "/g") == ["P1 moved /g"])
        #expect(stage.step(.changed(Stage.path("/g"), by: [])) == ["P1 changed"])
        #expect(stage.release(1) == ["P1 reacquire 1"])
    }

    @Test func theTrashIsEmptied() {
        var stage = Stage()
        stage.present(1, "/D/f")
        #expect(stage.ask(1, "X /D") == ["P1 writer 1"])
        #expect(stage.answer(1, 1) == ["P1 accommodate 1"])
        // The presenter closes the document and retires: that is an answer.
        #expect(stage.retire(1) == ["granted 1 /D"])
        #expect(stage.answer(1, 1) == [])
        #expect(stage.release(1) == [])
    }

    @Test func saveAsOverAnOpenDocument() {
        var stage = Stage()
        stage.present(1, "/mine")
        stage.present(2, "/theirs", clientSession: 3)
        #expect(
            stage.askAndAnswer(1, "Z /theirs", of: 1) == [
                "P2 writer 1", "P2 accommodate 1", "granted 1 /theirs",
            ])
    }

    @Test func aMoveOntoAnOpenDocument() {
        var stage = Stage()
        stage.present(1, "/A")
        stage.present(2, "/B")
        let said = stage.askAndAnswer(1, "M /A + Z /B")
        #expect(said == ["P1 writer 1", "P2 writer 1", "P2 accommodate 1", "granted 1 /A /B"])
        #expect(stage.move("/A", "/B") == ["P1 moved /B"])
        #expect(stage.release(1) == ["P1 reacquire 1", "P2 reacquire 1"])
    }

    @Test func aConflict() {
        var stage = Stage()
        stage.present(1, "/f")
        #expect(stage.askAndAnswer(1, "U /f") == ["P1 writer 1", "granted 1 /f"])
        let version = Event.version(Stage.path("/f"), .gained, id: "theirs")
        #expect(stage.step(version) == ["P1 version gained theirs"])
        #expect(stage.step(.changed(Stage.path("/f"), by: [])) == ["P1 changed"])
        #expect(stage.release(1) == ["P1 reacquire 1"])
    }

    @Test func anotherFormat() {
        var stage = Stage()
        stage.present(1, "/a.rtf")
        stage.present(2, "/a.rtf")
        #expect(stage.ask(1, "U /a.rtf", of: 1) == ["P2 writer 1"])
        #expect(stage.answer(2, 1) == ["granted 1 /a.rtf"])
        #expect(stage.move("/a.rtf", "/a.rtfd", by: [1]) == ["P2 moved /a.rtfd"])
        #expect(stage.release(1) == ["P2 reacquire 1"])
        #expect(stage.ask(2, "R /a.rtfd") == ["P1 reader 2", "P2 reader 2"])
    }

    // MARK: C0.3

    @Test func aSaveGoesBeforeAllThatWaitButNotBeforeWhoHasTheTurn() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.ask(1, "R- /f")
        _ = stage.answer(1, 1)
        #expect(stage.ask(2, "R /f") == ["P1 reader 2"])
        #expect(stage.answer(1, 2) == ["P1 save 2"])
        #expect(stage.ask(3, "X /f") == [])
        #expect(stage.ask(4, "U /f", of: 1) == [], "the first reader still reads")
        #expect(stage.release(1) == ["P1 reacquire 1", "granted 4 /f"])
        #expect(stage.answer(1, 2) == [], "and the write has the turn")
        #expect(stage.release(4) == ["granted 2 /f"])
    }

    @Test func whoOwesNothingWaitsLikeAnyOther() {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f")
        _ = stage.ask(1, "U /f")
        _ = stage.answer(1, 1)
        #expect(stage.ask(2, "U /f", of: 1) == [])
        #expect(stage.answer(2, 1) == ["granted 1 /f"])
        #expect(stage.release(1) == ["P1 reacquire 1", "P2 reacquire 1", "P2 writer 2"])
    }

    /// The schedules found this: each presenter waited for the other to relinquish.
    @Test func twoThatSaveAtOnceDoNotWaitForEachOther() {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f", clientSession: 3)
        #expect(stage.ask(1, "U /f", of: 1) == ["P2 writer 1"])
        // The second presenter may need this write in order to relinquish, so it goes first. The
        // first one waits anyway.
        #expect(stage.ask(2, "U /f", of: 2) == ["P1 writer 2", "granted 2 /f"])
        #expect(stage.release(2) == ["P1 reacquire 2"])
        #expect(stage.answer(2, 1) == ["granted 1 /f"])
    }

    /// The schedules found this: an answer that was no longer awaited was taken for the next one.
    @Test func anAnswerThatIsNotWaitedForIsNotTheNext() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.askAndAnswer(1, "R- /f")
        #expect(stage.ask(2, "G /f") == [])
        #expect(stage.ask(3, "U /f", of: 1) == [])
        let said = stage.release(1)
        #expect(said == ["P1 reacquire 1", "P1 writer 2", "P1 save 2", "granted 3 /f"])
        #expect(stage.answer(1, 2) == [], "it has let go")
        #expect(stage.release(3) == [], "and has not saved")
        #expect(stage.answer(1, 2) == ["granted 2 /f"])
    }

    /// The schedules found this: the first save overtook a deletion that had already asked the
    /// second presenter, and the second save then waited for that deletion for ever.
    @Test func aSaveGoesBeforeAClaimThatWaitsForAnotherSave() {
        var stage = Stage()
        stage.present(1, "/d", isDirectory: true)
        stage.present(2, "/d/e")
        stage.present(3, "/d/f")
        _ = stage.ask(1, "X /d")
        for presenter in 1...3 { _ = stage.answer(UInt64(presenter), 1) }
        _ = stage.ask(2, "X /d", of: 3)
        for presenter in 1...2 { _ = stage.answer(UInt64(presenter), 2) }
        #expect(stage.ask(3, "U /d", of: 1) == ["granted 3 /d"])
        #expect(stage.ask(4, "U /d/e", of: 2) == ["granted 4 /d/e"])
    }

    // MARK: The end of a claim

    @Test func cancelTakesAClaimBack() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.ask(1, "R /f")
        #expect(stage.ask(2, "U /f") == [])
        #expect(
            stage.cancel(1) == ["refused 1 cancelled", "P1 reacquire 1", "P1 writer 2"])
        #expect(stage.answer(1, 1) == [])
        #expect(stage.answer(1, 2) == ["granted 2 /f"])
        #expect(stage.cancel(2) == [], "granted, so it is released instead")
        #expect(stage.cancel(1) == [])
    }

    @Test func cancelInTheQueueLetsOthersMoveUp() {
        var stage = Stage()
        _ = stage.ask(1, "R /f")
        _ = stage.ask(2, "U /f")
        #expect(stage.ask(3, "R /f") == [])
        #expect(stage.cancel(2) == ["refused 2 cancelled", "granted 3 /f"])
    }

    @Test func whoOnlyTriesIsRefusedRatherThanMadeToWait() {
        var stage = Stage()
        stage.present(1, "/g")
        _ = stage.ask(1, "R /f")
        #expect(stage.ask(2, "U /f", isTry: true) == ["refused 2 busy"])
        #expect(stage.ask(3, "R /f", isTry: true) == ["granted 3 /f"])
        _ = stage.ask(4, "U /f")
        #expect(stage.ask(5, "R /f", isTry: true) == ["refused 5 busy"])
        #expect(stage.ask(6, "U /g", isTry: true) == ["P1 writer 6"], "presenters it waits for")
        #expect(stage.release(1) + stage.release(3) == ["granted 4 /f"])
    }

    // MARK: The end of a party

    @Test func theHolderDies() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.askAndAnswer(1, "R- /f")
        _ = stage.ask(2, "U /f", clientSession: 5)
        #expect(stage.end(clientSession: 1) == ["P1 reacquire 1", "P1 writer 2"])
        #expect(stage.answer(1, 2) == ["granted 2 /f"])
    }

    @Test func theOneThatIsAskedDies() {
        var stage = Stage()
        stage.present(1, "/f", clientSession: 7)
        stage.present(2, "/f", clientSession: 8)
        _ = stage.ask(1, "R /f")
        #expect(stage.answer(2, 1) == [])
        #expect(stage.end(clientSession: 7) == ["P2 save 1"])
        #expect(stage.end(clientSession: 8) == ["granted 1 /f"])
        #expect(stage.release(1) == [])
        #expect(stage.machine.isIdle)
    }

    @Test func theOneThatWaitsDies() {
        var stage = Stage()
        _ = stage.ask(1, "R /f")
        _ = stage.ask(2, "U /f", clientSession: 4)
        #expect(stage.ask(3, "R /f") == [])
        #expect(stage.end(clientSession: 4) == ["granted 3 /f"])
        #expect(stage.end(clientSession: 4) == [])
        #expect(stage.end(clientSession: 1) == [])
        #expect(stage.machine.isIdle)
    }

    @Test func itsNumberUsedAgainIsSomebodyElse() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.askAndAnswer(1, "U /f")
        _ = stage.retire(1)
        stage.present(1, "/f")
        #expect(stage.release(1) == [], "it never let go")
    }

    // MARK: Programs that know of no turns

    @Test func plainProgramsWaitButAreInNobodysWay() {
        var stage = Stage()
        let plain = Request.Manner.plain(goesAhead: false)
        #expect(stage.ask(1, "U /f", manner: plain) == ["granted 1 /f"])
        #expect(stage.ask(2, "U /f") == ["granted 2 /f"])
        #expect(stage.ask(3, "R /f", manner: plain) == [])
        #expect(stage.ask(4, "U /f", manner: plain) == [])
        #expect(stage.release(2) == ["granted 3 /f", "granted 4 /f"])
    }

    @Test func overdueIsBusyOrGoesAhead() {
        var stage = Stage()
        _ = stage.ask(1, "U /f")
        _ = stage.ask(2, "R /f", manner: .plain(goesAhead: false))
        _ = stage.ask(3, "X /f", manner: .plain(goesAhead: true))
        #expect(stage.overdue(2) == ["refused 2 busy"])
        #expect(stage.overdue(3) == ["granted 3 /f"])
        #expect(stage.overdue(3) == [])
        #expect(stage.overdue(1) == [], "who coordinates is never overdue")
    }

    @Test(arguments: [false, true]) func overdueDoesNotWaitForPresenters(_ goesAhead: Bool) {
        var stage = Stage()
        stage.present(1, "/f")
        #expect(stage.ask(1, "R /f", manner: .plain(goesAhead: goesAhead)) == ["P1 reader 1"])
        #expect(stage.overdue(1) == ["granted 1 /f"])
        #expect(stage.answer(1, 1) == [])
        #expect(stage.release(1) == ["P1 reacquire 1"])
    }

    /// The schedules found this: the plain access went ahead beside the presenter's own write.
    @Test func overdueWhileAPresenterWritesIsBusy() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.ask(1, "R /f", manner: .plain(goesAhead: false))
        #expect(stage.ask(2, "U /f", of: 1) == ["granted 2 /f"])
        #expect(stage.overdue(1) == ["refused 1 busy", "P1 reacquire 1"])
    }
}
