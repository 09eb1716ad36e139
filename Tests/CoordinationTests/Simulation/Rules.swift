import Model

@testable import Coordination

// Implements Rules.md a second time, in the simplest way and without looking at the machine, so
// that the checks do not share its mistakes.

/// The letters that Rules.md uses.
enum Letter: String, CaseIterable, Sendable {
    case r, u, g, k, m, x, z

    var isDeep: Bool { self == .m || self == .x || self == .z }

    var access: Access {
        switch self {
        case .r: .read([])
        case .u: .write(.update)
        case .g: .write(.merging)
        case .k: .write(.contentIndependentMetadataOnly)
        case .m: .write(.moving)
        case .x: .write(.deleting)
        case .z: .write(.replacing)
        }
    }
}

/// A path as a list of indices into `Names.all`.
typealias Place = [Int]

/// The names of simulated items.
enum Names {
    static let all = ["a", "b", "d", "e", "p.pkg", "q.pkg", "w.weakpkg", "x", "y"]
    static let isPackage = all.map { $0.hasSuffix("pkg") }
    private static let steps = all.map { Path.Step(Name($0), isPackage: $0.hasSuffix("pkg")) }

    static let universe: [Place] = [
        "a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "p.pkg", "p.pkg/x", "p.pkg/y", "p.pkg/e",
        "p.pkg/q.pkg", "p.pkg/q.pkg/x", "d/p.pkg", "d/p.pkg/x", "d/p.pkg/q.pkg/y", "w.weakpkg",
        "w.weakpkg/x", "w.weakpkg/y",
    ].map { $0.split(separator: "/").map { all.firstIndex(of: String($0))! } }

    static func path(_ place: Place) -> Path { Path(place.map { steps[$0] }) }
}

/// One target of a request.
struct Want {
    var letter: Letter
    var isWithoutChanges = false
    var place: Place

    var access: Access {
        letter == .r && isWithoutChanges ? .read(.withoutChanges) : letter.access
    }
}

enum Rules {
    static func isBelow(_ a: Place, _ b: Place) -> Bool { a.count > b.count && a.starts(with: b) }

    /// Whether the two are the same item, or in the same package, or one is a package that contains
    /// the other.
    static func isOneUnit(_ a: Place, _ b: Place) -> Bool {
        if a == b { return true }
        for (index, name) in a.enumerated() where Names.isPackage[name] {
            if b.starts(with: a[...index]) { return true }
        }
        return false
    }

    /// Whether two accesses conflict, by C1 to C3.
    static func conflict(_ a: Want, _ b: Want) -> Bool {
        if a.letter == .r && b.letter == .r { return false }
        if isOneUnit(a.place, b.place) { return true }
        if a.letter.isDeep && isBelow(b.place, a.place) { return true }
        return b.letter.isDeep && isBelow(a.place, b.place)
    }

    /// C4: the messages to a presenter at that place before an access, in their order.
    static func duties(
        _ want: Want, presenterAt place: Place, _ id: ClaimID, isPreparing: Bool
    ) -> [Message] {
        let isItem = place == want.place
        let isPackage = isBelow(want.place, place) && place.last.map { Names.isPackage[$0] } == true
        let isContained = isBelow(place, want.place)
        guard isItem || isPackage || isContained else { return [] }
        let accommodate: Message =
            isPackage
            ? .accommodateSubitemDeletion(id, Names.path(want.place)) : .accommodateDeletion(id)
        if isPreparing {
            switch want.letter {
            case .r: return want.isWithoutChanges ? [] : [.save(id)]
            case .g: return [.save(id)]
            case .x, .z: return [accommodate]
            case .u, .k, .m: return []
            }
        }
        switch want.letter {
        case .r where isContained, .u where isContained, .g where isContained, .k where isContained:
            return []
        case .r:
            return want.isWithoutChanges
                ? [.relinquishToReader(id)] : [.relinquishToReader(id), .save(id)]
        case .u, .k, .m: return [.relinquishToWriter(id)]
        case .g: return [.relinquishToWriter(id), .save(id)]
        case .x, .z: return [.relinquishToWriter(id), accommodate]
        }
    }
}

extension Message {
    var isRelinquish: Bool {
        switch self {
        case .relinquishToReader, .relinquishToWriter: true
        default: false
        }
    }
}
