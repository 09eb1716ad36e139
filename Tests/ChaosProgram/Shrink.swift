/// Removes the actions from a failing round that it does not need to fail.
enum Shrink {
    /// Delta debugging: removes halves, and then smaller and smaller parts, as long as the rest
    /// still fails.
    /// - Parameters:
    /// - fails: Returns whether these actions, in this order, still fail.
    /// - isOver: Returns whether the time is over; the smallest result so far is then returned.
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

    /// Returns the round without some actions; the last action stays, and the order stays.
    /// - Parameter subjects: The paths or devices of the violations. Actions that concern them are
    ///   tried first, because each try takes seconds.
    static func shrunk(
        _ round: Round, about subjects: [String], isOver: () -> Bool,
        fails: (Round) throws -> Bool
    ) rethrows -> Round {
        let ending = round.filter { $0.verb == .settle }
        var actions = round.filter { $0.verb != .settle }
        // One violation of several usually needs much less than all of them.
        for subject in subjects.prefix(3) where !isOver() {
            let (isNamed, isNear) = scene(of: [subject], in: actions)
            let rest = actions.filter { isNamed($0) || isNear($0) }
            if rest.isEmpty || rest.count == actions.count { continue }
            if try fails(rest + ending) {
                actions = rest
                break
            }
        }
        for guess in guesses(subjects, in: actions) where !isOver() {
            let rest = actions.filter(guess)
            if rest.isEmpty || rest.count == actions.count { continue }
            if try fails(rest + ending) { actions = rest }
        }
        // Whole kinds of actions, beginning with those of which there are most.
        let kinds = Dictionary(grouping: actions, by: kind(of:)).sorted {
            ($1.value.count, $0.key) < ($0.value.count, $1.key)
        }
        for (kind, all) in kinds where !isOver() && all.count > 1 {
            let rest = actions.filter { Shrink.kind(of: $0) != kind }
            if !rest.isEmpty, try fails(rest + ending) { actions = rest }
        }
        let left = try smallest(actions, isOver: isOver) { try fails($0 + ending) }
        return left + ending
    }

    /// The actor, what it does, and the directory where it does that.
    private static func kind(of action: Action) -> String {
        let directory = action.verb.paths.first?.prefix { $0 != "/" } ?? ""
        return "\(action.actor) \(action.verb.words[0]) \(directory)"
    }

    /// Returns which actions concern the subjects or make their directories, and which faults and
    /// pauses belong to the scenes of these actions: their numbers are close.
    private static func scene(
        of subjects: [String], in round: Round
    ) -> (isNamed: (Action) -> Bool, isNear: (Action) -> Bool) {
        let directories = Set(
            subjects.compactMap { $0.split(separator: "/").first.map(String.init) })
        func isNamed(_ action: Action) -> Bool {
            if case .makeDirectory(let path) = action.verb {
                return subjects.contains { $0.hasPrefix(path + "/") } || directories.contains(path)
            }
            return action.verb.paths.contains(where: subjects.contains)
        }
        let named = round.filter { action in
            if case .makeDirectory = action.verb { return false }
            return isNamed(action)
        }.map(\.number)
        func isNear(_ action: Action) -> Bool {
            (action.verb.isFault || action.verb.paths.isEmpty)
                && named.contains { abs($0 - action.number) < 12 }
        }
        return (isNamed, isNear)
    }

    /// Returns which actions to keep, beginning with the smallest sets.
    private static func guesses(_ subjects: [String], in round: Round) -> [(Action) -> Bool] {
        let directories = Set(
            subjects.compactMap { $0.split(separator: "/").first.map(String.init) })
        func isThere(_ action: Action) -> Bool {
            directories.contains { directory in
                action.actor == directory
                    || action.verb.paths.contains { $0.hasPrefix(directory) }
            }
        }
        func isNamed(_ action: Action) -> Bool {
            if case .makeDirectory = action.verb { return isThere(action) }
            return action.verb.paths.contains(where: subjects.contains)
        }
        let isNear = scene(of: subjects, in: round).isNear
        return [
            { isNamed($0) }, { isNamed($0) || isNear($0) }, { isNamed($0) || $0.verb.isFault },
            { isThere($0) && !$0.verb.isFault }, { isThere($0) || $0.verb.isFault },
            { !$0.verb.isFault },
        ]
    }
}
