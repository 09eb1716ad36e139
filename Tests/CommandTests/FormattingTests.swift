import Control
import Model
import Testing

@testable import fsctl

@Suite struct FormattingTests {
    @Test(arguments: [
        (UInt64(0), "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1249, "1.2 kB"), (9949, "9.9 kB"),
        (9950, "10 kB"), (999_499, "999 kB"), (999_500, "1.0 MB"), (1_234_567, "1.2 MB"),
        (12_345_678, "12 MB"), (1_500_000_000, "1.5 GB"), (UInt64.max, "18 EB"),
    ])
    func sizes(bytes: UInt64, text: String) { #expect(Amount.size(bytes) == text) }

    @Test(arguments: [
        (0, "0"), (999, "999"), (1000, "1,000"), (1_002_003, "1,002,003"), (-1234, "-1,234"),
    ])
    func counts(value: Int, text: String) { #expect(Amount.count(value) == text) }

    @Test func nounsAgree() {
        #expect(
            Amount.count(1, "version") == "1 version" && Amount.count(2, "version") == "2 versions")
    }

    /// 2026-11-20 14:03:59 UTC.
    private let afternoon: Int64 = 1_795_183_439_000_000_000

    @Test func timesOfTodayAreShort() {
        #expect(TimeFormat.text(afternoon, now: afternoon + 1, inUTC: true) == "today 14:03")
        let tomorrow = afternoon + 24 * 3600 * 1_000_000_000
        #expect(TimeFormat.text(afternoon, now: tomorrow, inUTC: true) == "2026-11-20 14:03")
        let nextYear = afternoon + 365 * 24 * 3600 * 1_000_000_000
        #expect(TimeFormat.text(afternoon, now: nextYear, inUTC: true) == "2026-11-20 14:03")
        #expect(TimeFormat.text(-1, now: afternoon, inUTC: true) == "1969-12-31 23:59")
    }

    private var table: Table {
        var table = Table([
            .init("N", .right), .init("NAME", isFlexible: true), .init("EMPTY"), .init("END"),
        ])
        table.add(["1", "short", "", "x"])
        table.add(["12", "a very long name indeed", "", "y"])
        return table
    }

    @Test func tablesAlignAndLeaveOutWhatIsEmpty() {
        #expect(
            table.text(width: nil) == """
                 N  NAME                     END
                 1  short                    x
                12  a very long name indeed  y
                """)
    }

    @Test func tablesFitTheTerminal() {
        let lines = table.text(width: 20).split(separator: "\n")
        #expect(lines.last == "12  a very lon…  y")
        #expect(lines.allSatisfy { $0.count <= 20 })
        // The width is too small for the table. The rows are then wider, and the loop must end.
        #expect(table.text(width: 1).split(separator: "\n").last == "12  a ver…  y")
    }

    @Test func wideCharactersCountTwice() {
        #expect("文書".columns == 4 && "e\u{301}".columns == 1)
        #expect("文書です".fitted(to: 5) == "文書…")
    }

    @Test func namesCannotControlTheTerminal() {
        #expect("a\u{1B}[2Jb\n".printable == "a?[2Jb?")
        #expect("x\u{202E}gpj".printable == "x?gpj")
    }

    @Test func partNamesFitAndHide() {
        #expect(Restoration.partName(Name("a.txt")).text == ".a.txt.concord-restore.part")
        let long = Restoration.partName(Name(String(repeating: "n", count: 255)))
        #expect(long.bytes.count == 255 && long.text.hasSuffix(".concord-restore.part"))
    }
}
