import Model

@testable import Reconcile

/// What devices send to the hub, one after the other.
struct Story {
    private(set) var table = Catalogue()
    /// The position of the hub's journal. A test remembers it as what a device has seen.
    private(set) var head: UInt64 = 0
    private var numbers: [Int: UInt64] = [:]
    private(set) var last: Operation?

    /// - Parameters:
    ///   - seen: How much of the journal the device had; by default all of it.
    ///   - at: When it happened, by the device's own clock.
    @discardableResult
    mutating func tell(
        _ device: Int, seen: UInt64? = nil, at time: Int64? = nil, epoch: UInt32 = 1, _ item: Int,
        _ change: Change, isFenced: Bool = false
    ) -> Verdict {
        numbers[device, default: 0] += 1
        let id = OperationID(device: .device(device), epoch: epoch, number: numbers[device]!)
        let moment = Moment(time: time ?? Int64(head + 1) * 100, device: .device(device))
        var change = change
        if case .edit(var revision) = change {
            revision.moment = moment
            change = .edit(revision)
        }
        let operation = Operation(
            id: id, item: item == 0 ? .root : .item(item), moment: moment, base: seen ?? head,
            change: change)
        return tell(operation, isFenced: isFenced)
    }

    @discardableResult
    mutating func tell(_ operation: Operation, isFenced: Bool = false) -> Verdict {
        head += 1
        last = operation
        return operation.apply(to: &table, sequence: head, isFenced: isFenced)
    }

    func item(_ number: Int) -> ItemState { table.item(.item(number))! }
    func isAlive(_ number: Int) -> Bool { item(number).life.isAlive }
    func name(_ number: Int) -> String { item(number).name }
    func current(_ number: Int) -> UInt64? { item(number).current?.id.low }
    func conflicts(_ number: Int) -> [UInt64] { item(number).conflicts.map(\.id.low) }
    func parent(_ number: Int) -> UInt64 { item(number).placement.parent.low }
    func placedBy(_ number: Int) -> OperationID { item(number).placedBy }
}

extension Change {
    static func file(
        _ name: String, in parent: Int = 0, _ revision: Int, content: Int? = nil,
        kind: ItemKind = .file
    ) -> Change {
        .create(
            Creation(
                kind: kind, placement: Placement(name, in: .place(parent)),
                revision: .made(revision, [], content)))
    }

    static func directory(_ name: String, in parent: Int = 0) -> Change {
        .create(Creation(kind: .directory, placement: Placement(name, in: .place(parent))))
    }

    static func save(_ revision: Int, on parents: [Int], content: Int? = nil) -> Change {
        .edit(.made(revision, parents, content))
    }

    static func move(to name: String, in parent: Int = 0, from base: OperationID) -> Change {
        .move(Placement(name, in: .place(parent)), base: base)
    }

    static func delete(_ revision: Int?) -> Change {
        .delete(current: revision.map { .revision($0) })
    }

    static func settle(_ versions: [Int], _ revision: Revision? = nil) -> Change {
        .resolve(versions.map { .revision($0) }, revision)
    }
}

extension Identifier {
    static func place(_ number: Int) -> Identifier { number == 0 ? .root : .item(number) }
}

extension Revision {
    static func made(_ id: Int, _ parents: [Int], _ content: Int? = nil) -> Revision {
        Revision(
            id: .revision(id), parents: parents.map { .revision($0) },
            content: .content(content ?? 1_000 + id), size: 1,
            moment: Moment(time: .max, device: .root))
    }
}
