import Foundation

/// Does the same random operations in a mounted tree and in a plain directory, and requires that
/// results and trees are equal: errors, contents, attributes, links (the idea of fsx, for whole
/// trees).
package final class RandomTree {
    package let seed: UInt64
    private let tested: TreeSide
    private let model: TreeSide
    private var operations: TreeOperations
    private let remount: (() throws -> Void)?
    private let staysOpen: Bool
    private var step = 0
    private var recent: [String] = []
    private static let remembered = 40

    /// Both directories must be empty. `remount` unmounts and mounts the tested volume. With
    /// `staysOpen`, handles stay open while their files are replaced, moved or removed.
    package init(
        random: SeededRandom, tested: String, model: String, staysOpen: Bool = true,
        remount: (() throws -> Void)? = nil
    ) {
        seed = random.seed
        self.tested = TreeSide(root: tested)
        self.model = TreeSide(root: model)
        self.remount = remount
        self.staysOpen = staysOpen
        operations = TreeOperations(random: random, canRemount: remount != nil)
    }

    /// Does that many more steps. The trees are compared every `comparing` steps and at the end.
    package func run(steps: Int, comparing: Int = 50) throws {
        for _ in 0..<steps {
            try one()
            if step % comparing == 0 { try compareTrees() }
        }
        try compareTrees()
    }

    /// Closes every open handle, so that the volume can be unmounted.
    package func closeAll() {
        tested.closeAll()
        model.closeAll()
    }

    private func one() throws {
        let operation = operations.next()
        step += 1
        recent = recent.suffix(Self.remembered - 1) + ["\(step): \(operation)"]
        if case .remount = operation {
            closeAll()
            try remount?()
            return try compareTrees()
        }
        if !staysOpen, !operation.isOnHandle { closeAll() }
        let expected = model.perform(operation)
        let given = tested.perform(operation)
        recent[recent.count - 1] += " = \(expected)"
        if given != expected { throw failure("the mount says \"\(given)\"") }
        if step % 5 == 0 { operations.known = model.paths() }
    }

    package func compareTrees() throws {
        let expected = try model.items()
        let given = try tested.items()
        for path in Set(expected.keys).union(given.keys).sorted() {
            guard let there = given[path] else { throw failure("\(path) is missing") }
            guard let item = expected[path] else { throw failure("\(path) should not be there") }
            if item.description != there.description {
                throw failure(
                    "\(path) is\n    \(there.description), not\n    \(item.description)")
            }
            if item.contents != there.contents {
                let at = zip(item.contents, there.contents).enumerated().first { $1.0 != $1.1 }
                let offset = at?.offset ?? min(item.contents.count, there.contents.count)
                throw failure(
                    "\(path) differs at byte \(offset) (\(there.contents.count) bytes, "
                        + "not \(item.contents.count))")
            }
        }
    }

    private func failure(_ what: String) -> SupportError {
        let said =
            "step \(step), CONCORD_SEED=\(seed): \(what). Before it:\n"
            + recent.joined(separator: "\n")
        let (long, short) = TreeOperations.longName
        return SupportError(said.replacingOccurrences(of: long, with: short))
    }
}
