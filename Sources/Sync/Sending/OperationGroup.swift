import Model
import Reconcile

/// Consecutive operations that the hub applies completely or not at all.
enum OperationGroup: Hashable, Sendable {
    /// The changes of one weak package.
    case package(UInt64)
    /// New contents of an item and the attributes that were given to them, by the number of the
    /// first operation. If the hub refused only the contents, for example because of a quota, the
    /// new permissions would hold for the contents before: other devices would show what was
    /// private to everybody.
    case item(UInt64)

    /// The number that the hub is told.
    var number: UInt64 {
        switch self {
        case .package(let count): 2 * count
        case .item(let first): 2 * first + 1
        }
    }
}

extension [Operation] {
    /// The group of each operation; nil for those that are applied by themselves.
    func groups(ofPackages packages: [Identifier: OperationGroup]) -> [OperationGroup?] {
        var groups = map { packages[$0.item] }
        // The first operation with contents among the consecutive ones of the present item.
        var first: Int?
        for (index, operation) in enumerated() {
            if let known = first, self[known].item != operation.item { first = nil }
            if let first, case .attribute = operation.change {
                let group = OperationGroup.item(self[first].id.number)
                for member in first...index { groups[member] = group }
            } else if first == nil, groups[index] == nil, operation.change.revision != nil {
                first = index
            }
        }
        return groups
    }
}
