import Coordination
import Testing

/// Rules.md, C4, cell by cell: which presenter is asked what before an access, by its place
/// relative to the item.
@Suite struct AskingTests {
    // The cells of column (b) apply to both levels of nested packages.
    static let matrix = """
        operation  | a                  | b                            | c | d
        R          | reader, save       | reader, save                 | - | -
        R:metadata | reader, save       | reader, save                 | - | -
        R:upload   | reader, save       | reader, save                 | - | -
        R-         | reader             | reader                       | - | -
        U          | writer             | writer                       | - | -
        K          | writer             | writer                       | - | -
        G          | writer, save       | writer, save                 | - | -
        M          | writer             | writer                       | - | writer
        X          | writer, accommodate| writer, accommodateSubitem   | - | writer, accommodate
        Z          | writer, accommodate| writer, accommodateSubitem   | - | writer, accommodate
        prepare R  | save               | save                         | - | save
        prepare R- | -                  | -                            | - | -
        prepare G  | save               | save                         | - | save
        prepare U  | -                  | -                            | - | -
        prepare K  | -                  | -                            | - | -
        prepare M  | -                  | -                            | - | -
        prepare X  | accommodate        | accommodateSubitem           | - | accommodate
        prepare Z  | accommodate        | accommodateSubitem           | - | accommodate
        """

    /// The place of the presenter for each column, when the item is `E`.
    static let places: [(column: String, place: String)] = [
        ("a", "/D/P.pkg/Q.pkg/E"), ("b", "/D/P.pkg"), ("b", "/D/P.pkg/Q.pkg"), ("c", "/D"),
        ("c", "/"), ("d", "/D/P.pkg/Q.pkg/E/F"), ("d", "/D/P.pkg/Q.pkg/E/F/R.pkg/z"),
        // These places are not related to the item.
        ("c", "/D/P.pkg/Q.pkg/other"), ("c", "/D/P.pkg/y"),
    ]

    @Test(arguments: Table(matrix).cells.map { [$0.row, $0.column, $0.value] })
    func whoIsAskedWhat(_ cell: [String]) {
        let words = cell[0].split(separator: " ").map(String.init)
        let item = "/D/P.pkg/Q.pkg/E"
        var stage = Stage()
        for (index, one) in Self.places.enumerated() {
            stage.present(UInt64(index), one.place, isDirectory: one.column == "c")
        }
        let said = stage.askAndAnswer(
            1, "\(words.last!) \(item)", manner: words.count > 1 ? .preparing : .coordinated)
        #expect(said.contains("granted 1 \(item)"))
        let reacquired = stage.release(1)
        for (index, one) in Self.places.enumerated() where one.column == cell[1] {
            let told = said.filter { $0.hasPrefix("P\(index) ") }.map {
                String($0.split(separator: " ")[1])
            }
            let expected = cell[2] == "-" ? [] : cell[2].split(separator: ", ").map(String.init)
            #expect(told == expected, "\(cell[0]), presenter of \(one.place)")
            let letGo = told.contains("reader") || told.contains("writer")
            #expect(reacquired.contains("P\(index) reacquire 1") == letGo)
        }
        for message in said where message.contains("accommodateSubitem") {
            #expect(message.hasSuffix(item), "\(message)")
        }
    }

    @Test func aPlainDirectorysPresenterIsAskedOfTheDirectory() {
        var stage = Stage()
        stage.present(1, "/D", isDirectory: true)
        #expect(stage.askAndAnswer(1, "R /D") == ["P1 reader 1", "P1 save 1", "granted 1 /D"])
        #expect(stage.askAndAnswer(2, "U /D/f") == ["granted 2 /D/f"])
    }

    @Test func itsOwnPresenterIsNotAsked() {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f")
        #expect(stage.ask(1, "X /f", of: 1) == ["P2 writer 1"])
    }

    @Test func onePresenterIsAskedOncePerClaim() {
        var stage = Stage()
        stage.present(1, "/P.pkg")
        let said = stage.askAndAnswer(1, "R /P.pkg/x + U /P.pkg/y + R- /P.pkg")
        #expect(said == ["P1 writer 1", "P1 save 1", "granted 1 /P.pkg/x /P.pkg/y /P.pkg"])
        #expect(stage.release(1) == ["P1 reacquire 1"])
        let both = stage.askAndAnswer(2, "M /P.pkg/x + X /P.pkg + G /P.pkg")
        #expect(
            both.dropLast() == [
                "P1 writer 2", "P1 accommodate 2", "P1 save 2",
            ])
    }

    // MARK: Capabilities

    @Test func whatAPresenterDoesNotImplementIsNotAsked() {
        var stage = Stage()
        stage.present(1, "/f", hears: [])
        stage.present(2, "/f", hears: [.save])
        stage.present(3, "/f", hears: [.relinquishToReader])
        stage.present(4, "/f", hears: [.relinquishToWriter])
        #expect(
            stage.askAndAnswer(1, "R /f") == ["P3 reader 1", "P2 save 1", "granted 1 /f"])
        #expect(stage.release(1) == ["P3 reacquire 1"])
        #expect(stage.askAndAnswer(2, "G /f") == ["P4 writer 2", "P2 save 2", "granted 2 /f"])
        #expect(stage.release(2) == ["P4 reacquire 2"])
    }

    @Test func aReadersBracketStandsInForAWritersThatIsNotImplemented() {
        var stage = Stage()
        stage.present(1, "/f", hears: [.relinquishToReader])
        #expect(stage.ask(1, "R- /f + U /f") == ["P1 reader 1"])
    }

    // MARK: Answers

    @Test func allLetGoBeforeAnySaves() {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f")
        #expect(stage.ask(1, "R /f") == ["P1 reader 1", "P2 reader 1"])
        #expect(stage.answer(2, 1) == [])
        #expect(stage.answer(1, 1) == ["P1 save 1", "P2 save 1"])
        #expect(stage.answer(1, 1) == [])
        #expect(stage.answer(1, 1) == [], "an answer too many says nothing")
        #expect(stage.answer(3, 1) == [], "nor one of somebody else")
        #expect(stage.answer(2, 1) == ["granted 1 /f"])
        #expect(stage.answer(2, 1, failure: "late") == [])
    }

    @Test(arguments: ["R", "G", "X", "Z"]) func aFailureRefuses(_ letter: String) {
        var stage = Stage()
        stage.present(1, "/f")
        stage.present(2, "/f")
        _ = stage.ask(1, "\(letter) /f")
        _ = stage.ask(2, "U /f")
        _ = stage.answer(1, 1)
        #expect(stage.answer(2, 1).count == 2)
        #expect(
            stage.answer(2, 1, failure: "no space") == [
                "refused 1 failed: no space", "P1 reacquire 1", "P2 reacquire 1", "P1 writer 2",
                "P2 writer 2",
            ])
        #expect(stage.answer(1, 1) == [], "the other's answer comes too late")
    }

    @Test func toFailToLetGoIsToLetGo() {
        var stage = Stage()
        stage.present(1, "/f")
        _ = stage.ask(1, "U /f")
        #expect(stage.answer(1, 1, failure: "?") == ["granted 1 /f"])
    }

    @Test func presentersAreAskedWhenTheTurnHasCome() {
        var stage = Stage()
        _ = stage.ask(1, "U /f")
        stage.present(1, "/f")
        #expect(stage.ask(2, "R /f") == [])
        #expect(stage.release(1) == ["P1 reader 2"])
    }

    @Test func prepareWaitsForNoTurnAndKeepsNone() {
        var stage = Stage()
        stage.present(1, "/D/f")
        _ = stage.ask(1, "Z /E")
        #expect(stage.ask(2, "R /D + R /E", manner: .preparing) == ["P1 save 2"])
        #expect(stage.ask(3, "U /D") == ["granted 3 /D"])
        #expect(stage.ask(4, "U /D/f", of: 1) == ["granted 4 /D/f"])
        #expect(stage.release(4) == [])
        #expect(stage.answer(1, 2) == ["granted 2 /D /E"])
        #expect(stage.release(2) == [])
    }

    @Test func aFailureToPrepareRefuses() {
        var stage = Stage()
        stage.present(1, "/D/f")
        _ = stage.ask(1, "G /D", manner: .preparing)
        #expect(stage.answer(1, 1, failure: "no") == ["refused 1 failed: no"])
    }
}
