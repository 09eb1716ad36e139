/// The differences of two lists of lines: a shortest edit script (Myers, "An O(ND) Difference
/// Algorithm", 1986) within a bound.
struct Difference: Sendable {
    /// A run of lines: equal ones, or those of one side that stand in place of the other's.
    enum Part: Equatable, Sendable {
        case equal(old: Range<Int>, new: Range<Int>)
        case changed(old: Range<Int>, new: Range<Int>)
    }

    private(set) var parts: [Part] = []
    /// False if the texts differ too much for the bound. Then one part stands for all that is
    /// between the first and the last difference.
    private(set) var isExact = true

    /// The longest edit script that is searched for. The work grows with its square.
    static let edits = 1000

    init(_ old: [Substring], _ new: [Substring]) {
        var numbers: [Substring: Int] = [:]
        func number(_ line: Substring) -> Int {
            if let known = numbers[line] { return known }
            numbers[line] = numbers.count
            return numbers.count - 1
        }
        let (a, b) = (old.map(number), new.map(number))
        let start = zip(a, b).prefix { $0 == $1 }.count
        let rest = min(a.count, b.count) - start
        let end = zip(a.reversed(), b.reversed()).prefix(rest).prefix { $0 == $1 }.count
        let (inA, inB) = (start..<a.count - end, start..<b.count - end)
        add(equal: start, from: 0, 0)
        if let kept = Difference.matches(Array(a[inA]), Array(b[inB])) {
            var (x, y) = (start, start)
            for (i, j) in kept {
                add(changed: x..<start + i, y..<start + j)
                add(equal: 1, from: start + i, start + j)
                (x, y) = (start + i + 1, start + j + 1)
            }
            add(changed: x..<inA.upperBound, y..<inB.upperBound)
        } else {
            isExact = false
            add(changed: inA, inB)
        }
        add(equal: end, from: inA.upperBound, inB.upperBound)
    }

    private mutating func add(equal count: Int, from x: Int, _ y: Int) {
        guard count > 0 else { return }
        if case .equal(let old, let new)? = parts.last {
            parts[parts.count - 1] = .equal(
                old: old.lowerBound..<x + count, new: new.lowerBound..<y + count)
        } else {
            parts.append(.equal(old: x..<x + count, new: y..<y + count))
        }
    }

    private mutating func add(changed old: Range<Int>, _ new: Range<Int>) {
        if !old.isEmpty || !new.isEmpty { parts.append(.changed(old: old, new: new)) }
    }

    /// Returns the pairs of equal elements that a shortest edit script keeps, in order; nil if it
    /// is longer than the bound.
    private static func matches(_ a: [Int], _ b: [Int]) -> [(Int, Int)]? {
        if a.isEmpty || b.isEmpty { return [] }
        // The furthest position in `a` on each diagonal, and a copy of them before each step.
        let middle = min(a.count + b.count, edits) + 1
        var furthest = [Int](repeating: 0, count: 2 * middle + 1)
        var steps: [[Int]] = []
        for edits in 0..<middle {
            steps.append(Array(furthest[(middle - edits)...(middle + edits)]))
            for diagonal in stride(from: -edits, through: edits, by: 2) {
                let at = middle + diagonal
                let isDown =
                    diagonal == -edits
                    || diagonal != edits && furthest[at - 1] < furthest[at + 1]
                var x = isDown ? furthest[at + 1] : furthest[at - 1] + 1
                while x < a.count, x - diagonal < b.count, a[x] == b[x - diagonal] { x += 1 }
                furthest[at] = x
                if x >= a.count, x - diagonal >= b.count {
                    return path(steps, edits, (a.count, b.count))
                }
            }
        }
        return nil
    }

    /// Follows the steps back from the end.
    private static func path(_ steps: [[Int]], _ count: Int, _ end: (Int, Int)) -> [(Int, Int)] {
        var (x, y) = end
        var kept: [(Int, Int)] = []
        for edits in stride(from: count, through: 1, by: -1) {
            let (before, diagonal) = (steps[edits], x - y)
            func furthest(_ diagonal: Int) -> Int { before[diagonal + edits] }
            let isDown =
                diagonal == -edits
                || diagonal != edits && furthest(diagonal - 1) < furthest(diagonal + 1)
            let last = isDown ? diagonal + 1 : diagonal - 1
            let start = isDown ? furthest(last) : furthest(last) + 1
            while x > start {
                (x, y) = (x - 1, y - 1)
                kept.append((x, y))
            }
            x = furthest(last)
            y = x - last
        }
        while x > 0, y > 0 {
            (x, y) = (x - 1, y - 1)
            kept.append((x, y))
        }
        return kept.reversed()
    }
}
