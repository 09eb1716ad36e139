import Coordination
import Testing

/// Rules.md, C1 to C3, cell by cell: `no` does not wait, `wait` waits until the other claim ends.
@Suite struct ExclusionTests {
    /// The requests that a heading stands for: any access to one item, by its letters.
    private func wants(_ heading: String) -> [String] {
        let parts = heading.split { "()".contains($0) }.map(String.init)
        let letters: [String] =
            switch parts[0] {
            case "R": ["R", "R-", "R:link", "R:metadata", "R:upload"]
            case "W": ["U", "G", "K", "M", "X", "Z"]
            default: parts[0].split(separator: ",").map(String.init)
            }
        return letters.map { "\($0) \(parts[1])" }
    }

    private func check(_ table: Table) {
        #expect(!table.cells.isEmpty)
        for cell in table.cells {
            for held in wants(cell.row) {
                for wanted in wants(cell.column) {
                    check(held, wanted, waits: cell.value == "wait")
                }
            }
        }
    }

    private func check(_ held: String, _ wanted: String, waits: Bool) {
        var stage = Stage()
        #expect(stage.ask(1, held).count == 1)
        let second = stage.ask(2, wanted)
        #expect(second.isEmpty == waits, "held \(held), requested \(wanted): \(second)")
        let granted = waits ? stage.release(1) : second
        #expect(granted.count == 1 && granted.first?.hasPrefix("granted 2") == true)
        // A claim counts from when it is scheduled, and not from when it is granted: here it waits
        // for another writer.
        var queue = Stage()
        _ = queue.ask(1, "U \(held.split(separator: " ")[1])")
        _ = queue.ask(2, held)
        let third = queue.ask(3, wanted)
        if waits { #expect(third == [], "\(held) waits, and \(wanted) goes before it") }
    }

    static let sameItem = """
        held  | R(/f) | U(/f) | G(/f) | K(/f) | M(/f) | X(/f) | Z(/f)
        R(/f) | no    | wait  | wait  | wait  | wait  | wait  | wait
        W(/f) | wait  | wait  | wait  | wait  | wait  | wait  | wait
        """

    @Test(arguments: ["f", "D/f", "D/E/f", "P.pkg"]) func sameItem(_ item: String) {
        check(Table(Self.sameItem.replacing("/f", with: "/\(item)")))
    }

    static let packages = """
        held      | R(P) | R(P/x) | R(P/y) | W(P) | W(P/x) | W(P/y) | R(P/Q/z) | W(P/Q/z)
        R(P)      | no   | no     | no     | wait | wait   | wait   | no       | wait
        R(P/x)    | no   | no     | no     | wait | wait   | wait   | no       | wait
        R(P/Q/z)  | no   | no     | no     | wait | wait   | wait   | no       | wait
        W(P)      | wait | wait   | wait   | wait | wait   | wait   | wait     | wait
        W(P/x)    | wait | wait   | wait   | wait | wait   | wait   | wait     | wait
        W(P/Q/z)  | wait | wait   | wait   | wait | wait   | wait   | wait     | wait
        """

    @Test(arguments: ["/P.pkg", "/P.weakpkg", "/D/P.pkg"]) func packages(_ package: String) {
        check(
            Table(
                Self.packages.replacing("P", with: package).replacing("Q/", with: "Q.pkg/")))
    }

    static let directories = """
        held     | R(/D) | U,G,K(/D) | M,X,Z(/D) | R(/D/d) | W(/D/d)
        R(/D)    | no    | wait      | wait      | no      | no
        U,G,K(/D)| wait  | wait      | wait      | no      | no
        M,X,Z(/D)| wait  | wait      | wait      | wait    | wait
        R(/D/d)  | no    | no        | wait      | no      | wait
        W(/D/d)  | no    | no        | wait      | wait    | wait
        """

    @Test(arguments: ["d", "E/d", "P.pkg", "P.pkg/d", "E/P.pkg/Q.pkg/d"])
    func directories(_ contained: String) {
        check(Table(Self.directories.replacing("/D/d", with: "/D/\(contained)")))
    }

    static let strangers = """
        held    | R(/D/b) | W(/D/b) | R(/E/d) | W(/E/d)
        R(/D/d) | no      | no      | no      | no
        W(/D/d) | no      | no      | no      | no
        """

    @Test func strangersNeverWait() { check(Table(Self.strangers)) }

    // MARK: C0

    @Test(arguments: ["R", "U", "X"]) func thoseOfOnePurposeNeverWait(_ letter: String) {
        var stage = Stage()
        #expect(stage.ask(1, "Z /D", for: ["mine"], clientSession: 1).count == 1)
        #expect(
            stage.ask(2, "\(letter) /D/f", for: ["other", "mine"], clientSession: 2).count == 1)
        #expect(stage.ask(3, "\(letter) /D/f", for: ["other"], clientSession: 2) == [])
    }

    @Test func thoseOfOnePresenterNeverWait() {
        var stage = Stage()
        stage.present(1, "/f")
        #expect(stage.ask(1, "U /f", of: 1).count == 1)
        #expect(stage.ask(2, "R /f", of: 1, clientSession: 3).count == 1)
    }

    // MARK: In order of arrival

    @Test func aReaderWaitsBehindAWaitingWriter() {
        var stage = Stage()
        _ = stage.ask(1, "R /f")
        #expect(stage.ask(2, "U /f") == [])
        #expect(stage.ask(3, "R /f") == [])
        #expect(stage.ask(4, "R /g") == ["granted 4 /g"])
        #expect(stage.release(1) == ["granted 2 /f"])
        #expect(stage.release(2) == ["granted 3 /f"])
    }

    @Test func readersGoTogether() {
        var stage = Stage()
        _ = stage.ask(1, "U /f")
        for id in 2...4 { #expect(stage.ask(UInt64(id), "R /f") == []) }
        #expect(stage.ask(5, "U /f") == [])
        #expect(stage.release(1) == ["granted 2 /f", "granted 3 /f", "granted 4 /f"])
        #expect(stage.release(3) == [])
        #expect(stage.release(2) == [])
        #expect(stage.release(4) == ["granted 5 /f"])
    }

    @Test func combinedClaimsThatCrossDoNotBlockEachOther() {
        var stage = Stage()
        #expect(stage.ask(1, "R /a + U /b") == ["granted 1 /a /b"])
        #expect(stage.ask(2, "R /b + U /a") == [])
        #expect(stage.ask(3, "U /b + U /c") == [])
        #expect(stage.ask(4, "R /c") == [])
        #expect(stage.release(1) == ["granted 2 /b /a"])
        #expect(stage.release(2) == ["granted 3 /b /c"])
        #expect(stage.release(3) == ["granted 4 /c"])
    }

    @Test func aClaimIsNotInItsOwnWay() {
        var stage = Stage()
        #expect(stage.ask(1, "R /f + U /f") == ["granted 1 /f /f"])
        #expect(stage.ask(2, "R /P.pkg/x + R /P.pkg/y + X /P.pkg").count == 1)
        #expect(stage.ask(3, "R /P.pkg/z") == [])
        #expect(stage.release(2) == ["granted 3 /P.pkg/z"])
    }
}
