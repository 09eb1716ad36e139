import Foundation
import Support
import Testing

@testable import HubPages

/// The comparison of two texts.
struct DifferenceTests {
    private func lines(_ text: String) -> [Substring] { text.map { Substring(String($0)) } }

    /// The number of lines that are removed or added.
    private func edits(_ difference: Difference) -> Int {
        difference.parts.reduce(0) {
            guard case .changed(let old, let new) = $1 else { return $0 }
            return $0 + old.count + new.count
        }
    }

    /// Puts the new text together from the parts and the old text, and checks their order.
    private func check(_ a: [Substring], _ b: [Substring], _ difference: Difference) {
        var (x, y) = (0, 0)
        for part in difference.parts {
            switch part {
            case .equal(let old, let new):
                #expect(old.lowerBound == x && new.lowerBound == y && !old.isEmpty)
                #expect(Array(a[old]) == Array(b[new]))
                (x, y) = (old.upperBound, new.upperBound)
            case .changed(let old, let new):
                #expect(old.lowerBound == x && new.lowerBound == y)
                (x, y) = (old.upperBound, new.upperBound)
            }
        }
        #expect(x == a.count && y == b.count)
    }

    /// The length of a shortest edit script, by the textbook's table.
    private func shortest(_ a: [Substring], _ b: [Substring]) -> Int {
        var row = Array(0...b.count)
        for (i, line) in a.enumerated() {
            var next = [i + 1]
            for (j, other) in b.enumerated() {
                next.append(line == other ? row[j] : min(row[j + 1], next[j]) + 1)
            }
            row = next
        }
        return row[b.count]
    }

    @Test func editScriptsAreShortest() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<2000 {
            let length = { Int.random(in: 0...12, using: &random) }
            let line = { Substring(String(Int.random(in: 0...3, using: &random))) }
            let a = (0..<length()).map { _ in line() }
            let b = (0..<length()).map { _ in line() }
            let difference = Difference(a, b)
            check(a, b, difference)
            #expect(difference.isExact)
            #expect(edits(difference) == shortest(a, b), "\(a) \(b)")
        }
    }

    @Test func textsThatDifferMuchAreOneChange() {
        let a = (0..<30_000).map { Substring("a\($0)") }
        let b = (0..<30_000).map { Substring("b\($0)") }
        let difference = Difference(["x"] + a + ["y"], ["x"] + b + ["y"])
        #expect(!difference.isExact && difference.parts.count == 3)
        check(["x"] + a + ["y"], ["x"] + b + ["y"], difference)
    }

    @Test func rowsShowWhatChangedWithinALine() {
        let rows = DifferenceRows("same\nthe old word\r\n", "same\nthe new word\n").rows
        #expect(rows.map(\.kind) == ["same", "changed"])
        #expect(rows[1].old?.before == "the " && rows[1].old?.marked == "old word\u{240D}")
        #expect(rows[1].new?.marked == "new word")
        #expect(DifferenceRows("", "").rows.isEmpty)
        #expect(!DifferenceRows("a\n", "a\n").hasDifferences)
    }
}
