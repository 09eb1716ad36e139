/// Leaves out of a failing round what it fails without.
enum Shrink {
    /// Delta debugging: halves, then smaller and smaller parts, as long as what is left still fails.
    /// - Parameters:
    ///   - fails: Whether these actions, in this order, still fail.
    ///   - isOver: Whether there is no time left; what is found by then is given back.
    static func smallest<Element>(
        _ all: [Element], isOver: () -> Bool = { false }, fails: ([Element]) throws -> Bool
    ) rethrows -> [Element] {
        var left = all
        var parts = 2
        while left.count > 1, !isOver() {
            let size = (left.count + parts - 1) / parts
            var isSmaller = false
            var start = 0
            while start < left.count, !isOver() {
                let rest = Array(left[..<start] + left[min(start + size, left.count)...])
                if !rest.isEmpty, try fails(rest) {
                    left = rest
                    isSmaller = true
                } else {
                    start += size
                }
            }
            if !isSmaller && size == 1 { break }
            parts = isSmaller ? max(2, parts - 1) : min(parts * 2, left.count)
        }
        return left
    }

    /// The round without some actions: its end stays, and what is done to programs and lines stays
    /// in its order.
    static func shrunk(
        _ round: Round, isOver: () -> Bool = { false }, fails: (Round) throws -> Bool
    ) rethrows -> Round {
        let ending = round.filter { $0.verb == .settle }
        let actions = round.filter { $0.verb != .settle }
        let left = try smallest(actions, isOver: isOver) { try fails($0 + ending) }
        return left + ending
    }
}
