import Hub
import Model

/// Finds out which items of a volume are below a folder. It keeps what it has learned of
/// directories, so it must not be used after the transaction.
struct Descendants {
    private let transaction: any LedgerTransaction
    private let volume: Identifier
    private let folder: Identifier
    /// Whether these items are below the folder.
    private var known: [Identifier: Bool] = [:]
    /// How many parents are still looked up, for all items together.
    private var steps: Int

    /// Others may wait for the transaction, and directories may be nested very deeply.
    static let steps = 16_384

    init(
        of folder: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction,
        steps: Int = Descendants.steps
    ) {
        self.transaction = transaction
        self.volume = volume
        self.folder = folder
        self.steps = steps
    }

    /// An item counts as elsewhere if this cannot be found out in few steps.
    mutating func contains(_ item: Identifier) throws -> Bool {
        var (next, path, isInside) = (item, [Identifier](), false)
        while next != .root {
            if let answer = known[next] {
                isInside = answer
                break
            }
            guard steps > 0 else { break }
            known[next] = false
            path.append(next)
            steps -= 1
            guard let parent = try parent(of: next) else { break }
            if parent == folder {
                isInside = true
                break
            }
            next = parent
        }
        if isInside { for item in path { known[item] = true } }
        return isInside
    }

    private func parent(of item: Identifier) throws -> Identifier? {
        try transaction.row(
            "SELECT parent FROM items WHERE volume = $1 AND id = $2", [.id(volume), .id(item)])?
            .id(0)
    }
}
