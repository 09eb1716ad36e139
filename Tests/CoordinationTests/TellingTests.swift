import Coordination
import Model
import Testing

/// Rules.md, C5, cell by cell: which presenter is notified of what, and which message replaces one
/// that it does not implement.
@Suite struct TellingTests {
    static let everything = Presenter.Capabilities.all
    /// The messages to presenters of a package, of an item in it, and of a plain directory.
    static let matrix = """
        event   | item             | package            | directory          | contained
        change  | changed          | subitemChanged @   | subitemChanged @   | -
        new     | changed          | subitemAppeared @, subitemChanged @ | = | -
        move    | moved /N/E       | subitemMoved @ /N/E  | =                | moved /N/E/z
        version | version gained v | subitemVersion @ gained v | =           | -
        """

    /// The messages to presenters that do not implement those about subitems.
    static let fallbacks = """
        event   | item             | package | directory | contained
        change  | changed          | changed | -         | -
        new     | changed          | changed | -         | -
        move    | moved /N/E       | changed | -         | moved /N/E/z
        version | version gained v | -       | -         | -
        """

    private func happen(_ event: String, _ stage: inout Stage, by: Set<PresenterID> = [])
        -> [String]
    {
        let path = Stage.path("/D/P.pkg/E")
        switch event {
        case "change": return stage.step(.changed(path, by: by))
        case "new": return stage.step(.appeared(path, by: by))
        case "move": return stage.step(.moved(from: path, to: Stage.path("/N/E"), by: by))
        default: return stage.step(.version(path, .gained, id: "v"))
        }
    }

    private func check(_ table: Table, _ hears: Presenter.Capabilities) {
        let places = [
            ("item", "/D/P.pkg/E"), ("package", "/D/P.pkg"), ("directory", "/D"),
            ("directory", "/"), ("contained", "/D/P.pkg/E/z"),
        ]
        var value = ""
        for cell in table.cells {
            // `=` stands for the previous cell, `@` for the item.
            if cell.value != "=" { value = cell.value.replacing("@", with: "/D/P.pkg/E") }
            var stage = Stage()
            for (index, one) in places.enumerated() {
                stage.present(
                    UInt64(index), one.1, isDirectory: one.0 == "directory", hears: hears)
            }
            let told = happen(cell.row, &stage)
            for (index, one) in places.enumerated() where one.0 == cell.column {
                let mine = told.filter { $0.hasPrefix("P\(index) ") }.map { $0.dropFirst(3) }
                let expected =
                    value == "-" ? [] : value.split(separator: ", ").map { $0[...] }
                #expect(mine == expected, "\(cell.row), presenter of \(one.1)")
            }
        }
    }

    @Test func whoIsToldWhat() { check(Table(Self.matrix), .all) }

    @Test func whatIsToldInstead() {
        check(Table(Self.fallbacks), [.change, .move, .versions])
    }

    @Test func whoHearsNothingIsToldNothing() {
        let nothing = Self.fallbacks.split(separator: "\n").enumerated().map { index, line in
            index == 0 ? String(line) : line.split(separator: "|")[0] + "| - | - | - | -"
        }
        check(Table(nothing.joined(separator: "\n")), [])
    }

    @Test(arguments: ["change", "new", "move", "version"])
    func theOneBehindItHearsOnlyOfVersions(_ event: String) {
        var stage = Stage()
        stage.present(1, "/D/P.pkg/E")
        stage.present(2, "/D/P.pkg")
        let told = happen(event, &stage, by: [PresenterID(1), PresenterID(2)])
        #expect(told.isEmpty == (event != "version"))
        #expect(event != "version" || told.count == 2)
    }

    @Test func aPlainDirectorysOwnChangeIsNotTold() {
        var stage = Stage()
        stage.present(1, "/D", isDirectory: true)
        #expect(stage.step(.changed(Stage.path("/D"), by: [])) == [])
        #expect(stage.step(.version(Stage.path("/D"), .lost, id: "v")) == [])
    }

    @Test func oldAndNewAncestorsHearOfAMoveOnce() {
        var stage = Stage()
        for (id, place) in ["/", "/A", "/B", "/C"].enumerated() {
            stage.present(UInt64(id), place, isDirectory: true)
        }
        let move = "subitemMoved /A/f /B/g"
        #expect(stage.move("/A/f", "/B/g") == ["P0 \(move)", "P1 \(move)", "P2 \(move)"])
    }

    @Test func whatHasMovedIsFoundAtItsNewPlace() {
        var stage = Stage()
        stage.present(1, "/A/f")
        stage.present(2, "/A/D/f")
        #expect(stage.move("/A", "/B") == ["P1 moved /B/f", "P2 moved /B/D/f"])
        #expect(stage.step(.changed(Stage.path("/B/f"), by: [])) == ["P1 changed"])
        #expect(stage.step(.changed(Stage.path("/A/f"), by: [])) == [])
        #expect(stage.ask(1, "M /B") == ["P1 writer 1", "P2 writer 1"])
    }
}
