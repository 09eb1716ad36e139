import Coordination
import Testing

/// Rules.md, C6: where the item is when the claim is granted.
@Suite struct MovingTests {
    @Test(arguments: Stage.letters) func whoWaitsIsToldWhereTheItemIs(_ letter: String) {
        var stage = Stage()
        _ = stage.ask(1, "M /A + Z /B")
        #expect(stage.ask(2, "\(letter) /A") == [])
        // A claim to replace the item at a place stays at that place, which is free now.
        let moved = stage.move("/A", "/C")
        #expect(moved == (letter == "Z" ? ["granted 2 /A"] : []))
        #expect(stage.release(1) == (letter == "Z" ? [] : ["granted 2 /C"]))
    }

    @Test(arguments: Stage.letters) func anAncestorsMoveIsTheItems(_ letter: String) {
        var stage = Stage()
        _ = stage.ask(1, "M /D + Z /E")
        #expect(stage.ask(2, "\(letter) /D/f") == [])
        #expect(stage.move("/D", "/E") == [])
        #expect(stage.release(1) == ["granted 2 /E/f"])
    }

    @Test(arguments: Stage.letters) func whatIsGoneIsGrantedWhereItWas(_ letter: String) {
        var stage = Stage()
        _ = stage.ask(1, "X /D")
        #expect(stage.ask(2, "\(letter) /D/f") == [])
        #expect(stage.release(1) == ["granted 2 /D/f"])
    }

    @Test func bothRulesHoldInOneClaim() {
        var stage = Stage()
        _ = stage.ask(1, "U /A + U /B")
        #expect(stage.ask(2, "M /A + Z /B") == [])
        #expect(stage.move("/A", "/A2") == [])
        #expect(stage.move("/B", "/B2") == [])
        #expect(stage.release(1) == ["granted 2 /A2 /B"])
    }

    @Test func aReplacementThatHasBegunFollows() {
        var stage = Stage()
        #expect(stage.ask(1, "Z /A") == ["granted 1 /A"])
        _ = stage.move("/A", "/B")
        #expect(stage.ask(2, "R /A") == ["granted 2 /A"])
        #expect(stage.ask(3, "R /B") == [])
    }

    @Test func whatComesMeanwhileIsReplacedAndItsPresenterAsked() {
        var stage = Stage()
        stage.present(1, "/A")
        stage.present(2, "/C")
        #expect(stage.ask(1, "Z /A") == ["P1 writer 1"])
        #expect(stage.move("/A", "/B") == ["P1 moved /B"])
        #expect(stage.move("/C", "/A") == ["P2 moved /A"])
        #expect(stage.answer(1, 1) == ["P2 writer 1"])
        #expect(stage.answer(2, 1) == ["P2 accommodate 1"])
        #expect(stage.answer(2, 1) == ["granted 1 /A"])
        #expect(stage.release(1) == ["P1 reacquire 1", "P2 reacquire 1"])
    }

    @Test func aMoveIntoAPackageMakesOneUnitOfThem() {
        var stage = Stage()
        _ = stage.ask(1, "U /f")
        _ = stage.move("/f", "/P.pkg/f")
        #expect(stage.ask(2, "R /P.pkg/x") == [])
        #expect(stage.release(1) == ["granted 2 /P.pkg/x"])
    }

    @Test func aMoveOutOfTheWayLetsOthersGo() {
        var stage = Stage()
        _ = stage.ask(1, "U /D/f")
        #expect(stage.ask(2, "M /D") == [])
        #expect(stage.ask(3, "R /D/g") == [])
        #expect(stage.move("/D/f", "/E") == ["granted 2 /D"])
        #expect(stage.release(2) == ["granted 3 /D/g"])
    }

    /// The schedules found this: a presenter was asked to relinquish while it still answered.
    @Test func oneMessageAfterTheOther() {
        var stage = Stage()
        stage.present(1, "/A", hears: [.relinquishToReader, .accommodateDeletion])
        #expect(stage.ask(1, "X /A + R- /B") == ["P1 accommodate 1"])
        #expect(stage.move("/A", "/B") == [])
        #expect(stage.answer(1, 1) == ["P1 reader 1"])
        #expect(stage.answer(1, 1) == ["granted 1 /B /B"])
    }
}
