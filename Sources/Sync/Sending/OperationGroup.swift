import HubProtocol
import Model
import Reconcile

/// Consecutive operations that the hub applies completely or not at all.
enum OperationGroup: Hashable, Sendable {
    /// The changes of one weak package.
    case package(UInt64)
    /// A new item or new contents, their permissions and their time, by the number of the first
    /// operation. If the hub refused only the contents, for example because of a quota, the new
    /// permissions would hold for the contents before: other devices would show what was private to
    /// everybody.
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
        // The first operation that makes something, among the consecutive ones of the present item.
        var first: Int?
        for (index, operation) in enumerated() {
            if let known = first, self[known].item != operation.item { first = nil }
            if let first, operation.change.describesContents {
                let group = OperationGroup.item(self[first].id.number)
                for member in first...index { groups[member] = group }
            } else if first == nil, groups[index] == nil, operation.change.startsGroup {
                first = index
            }
        }
        return groups
    }
}

/// How much a request with operations holds.
struct RequestSize {
    private var operations = 0
    private var manifestBytes = 0

    /// Adds an operation, or returns false if it belongs in the next request. Permissions stay with
    /// the contents before them, however long the manifest of these is.
    mutating func add(_ content: RevisionContent?) -> Bool {
        guard operations < HubLimits.operations else { return false }
        if let content {
            manifestBytes += content.manifest.bytes.count
            guard operations == 0 || manifestBytes <= 4 << 20 else { return false }
        }
        operations += 1
        return true
    }
}
