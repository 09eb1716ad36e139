import HubProtocol
import Model
import Reconcile

// Moves into and out of shared folders. The devices of the folder's members must receive what came
// in, although it did not change itself, and must be told of what is gone. Items below a directory
// are handled in steps: the first ones with the move, the rest by `Revivals`.
extension LedgerTable {
    /// - Parameter old: The item as it was before.
    mutating func noteMove(of item: ItemState, from old: ItemState) throws {
        scope?.forgetPlaces()
        let folders = try knownFolders()
        guard !folders.isEmpty else { return }
        let left = try transaction.folders.chain(from: old.placement.parent, in: volume)
        let entered = try transaction.folders.chain(from: item.placement.parent, in: volume)
        work += left.count + entered.count
        // What is below a directory that has moved itself may not be told yet.
        let open = try CrossingTable(transaction, volume).open(left)
        for folder in folders {
            let before = left.contains(folder.directory)
            let now = entered.contains(folder.directory)
            let pending = open.filter { $0.folder == folder.id }
            if now, !before || !pending.isEmpty {
                try cross(item, folder, leaves: false)
            } else if !now {
                var leaves = before
                for crossing in pending where !leaves {
                    leaves = try concerns(crossing, old, in: left)
                }
                if leaves { try cross(item, folder, leaves: true) }
            }
        }
    }

    /// Whether an item was in a directory when that left a folder, as far as is known: nothing
    /// between them was placed later.
    ///
    /// - Parameter chain: The directories above the item.
    private func concerns(
        _ crossing: Crossing, _ item: ItemState, in chain: [Identifier]
    ) throws -> Bool {
        guard crossing.leaves, item.placedSequence <= crossing.sequence else { return false }
        return try chain.prefix { $0 != crossing.directory }.allSatisfy { directory in
            let found = try transaction.item(directory, in: volume)
            return found?.placedSequence ?? .max <= crossing.sequence
        }
    }

    private mutating func knownFolders() throws -> [SharedFolder] {
        if let folders { return folders }
        let found = try transaction.folders.folders(in: volume)
        folders = found
        return found
    }

    private mutating func cross(_ item: ItemState, _ folder: SharedFolder, leaves: Bool) throws {
        work += 10
        let departures = DepartureTable(transaction, folder)
        if leaves {
            try departures.add(.init(sequence: sequence, item: item.id, kind: item.kind))
        } else {
            try departures.remove(item.id)
        }
        guard item.kind == .directory else { return }
        try CrossingTable(transaction, volume).set(
            Crossing(
                directory: item.id, folder: folder.id, leaves: leaves, sequence: sequence))
        let start = work
        while work < start + steps.crossed, try goOnWithCrossings() {}
        // It is no reason to refuse the operation.
        if workLimit < .max { workLimit += work - start }
    }

    /// Looks at some items of a directory that came into a shared folder or left it.
    ///
    /// - Returns: Whether something may be left to do.
    mutating func goOnWithCrossings() throws -> Bool {
        let crossings = CrossingTable(transaction, volume)
        guard var crossing = try crossings.first() else { return false }
        work += 10
        let page = try crossings.children(after: crossing, limit: steps.read)
        guard let last = page.last,
            let folder = try knownFolders().first(where: { $0.id == crossing.folder })
        else {
            try crossings.remove(crossing)
            return true
        }
        for (id, _) in page { try tell(id, of: crossing, folder) }
        (crossing.item, crossing.key) = last
        try crossings.set(crossing)
        return true
    }

    private mutating func tell(
        _ id: Identifier, of crossing: Crossing, _ folder: SharedFolder
    ) throws {
        guard id != .root, let item = try transaction.item(id, in: volume),
            item.placement.parent == crossing.directory
        else { return }
        work += 10
        let departures = DepartureTable(transaction, folder)
        if crossing.leaves {
            // The members have not seen what came later, and must not hear of it.
            guard item.placedSequence <= crossing.sequence else { return }
            try departures.add(.init(sequence: sequence, item: id, kind: item.kind))
        } else {
            try departures.remove(id)
            if item.life.isAlive { try resendRow(id) }
        }
        guard item.kind == .directory else { return }
        try CrossingTable(transaction, volume).set(
            Crossing(
                directory: id, folder: folder.id, leaves: crossing.leaves,
                sequence: crossing.sequence))
    }
}

// The table of a folder's member shows the folder as a whole volume: its directory is the root, and
// nothing else exists. The decision works on what it shows, so it can neither read nor change
// anything outside.
extension LedgerTable {
    /// - Throws: `OperationBound` if something outside of the folder has the id. That is all that
    ///   can be learned: who knows the id has seen the item in the folder, or was told of it.
    mutating func claim(_ id: Identifier) throws {
        guard scope != nil else { return }
        let isItem = try transaction.folders.parent(of: id, in: volume) != nil
        let target = try target(ofAlias: id)
        guard isItem || target != nil else { return }
        guard try !isItem || sees(id), try target.map({ try sees($0) }) ?? true else {
            throw OperationBound.taken(id)
        }
    }

    mutating func sees(_ id: Identifier) throws -> Bool {
        let before = scope?.reads ?? 0
        defer { work += (scope?.reads ?? 0) - before }
        return try scope?.contains(id) ?? true
    }

    mutating func sees(version id: Identifier) throws -> Bool {
        let before = scope?.reads ?? 0
        defer { work += (scope?.reads ?? 0) - before }
        return try scope?.contains(version: id) ?? true
    }

    /// The item at the end of a chain of aliases.
    func target(ofAlias id: Identifier) throws -> Identifier? {
        let target = try transaction.canonical(id, in: volume)
        return target == id ? nil : target
    }

    /// The operation as it concerns the folder: what is to be moved into a directory that is not
    /// there any more comes into the folder itself.
    mutating func placed(_ operation: Operation) throws -> Operation {
        guard scope != nil, case .move(var placement, let base) = operation.change,
            try item(canonical(placement.parent))?.kind != .directory
        else { return operation }
        var operation = operation
        placement.parent = .root
        operation.change = .move(placement, base: base)
        return operation
    }

    /// The verdict about an operation of an item that the folder does not have, whether there is
    /// none or it is elsewhere. Nil if it is decided as others are.
    ///
    /// - Throws: `OperationBound` if the device must send its contents as a new item.
    mutating func verdict(ifUnseen operation: Operation) throws -> Verdict? {
        guard scope != nil, try item(canonical(operation.item)) == nil else { return nil }
        switch operation.change {
        case .create: return nil
        // The same as for an item in the trash.
        case .delete: return .overruled(.alreadyGone)
        case .attribute, .resolve(_, nil): return .applied
        case .edit, .move, .restore, .resolve: throw OperationBound.taken(operation.item)
        }
    }
}

extension OperationBound {
    fileprivate static func taken(_ item: Identifier) -> OperationBound {
        OperationBound(
            "This item is not in the folder that is shared with you: it is sent as a new one.",
            takenItem: item)
    }
}
