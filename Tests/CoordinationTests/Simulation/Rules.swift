@testable import Coordination
import Model

// coordination.md C read again, naively and without a look at the machine: whoever judges must not
// share its mistakes.

/// The letters of the document.
enum Letter: String, CaseIterable, Sendable {
    case R, U, G, K, M, X, Z

    var isDeep: Bool { self == .M || self == .X || self == .Z }

    var access: Access {
        switch self {
        case .R: .read([])
        case .U: .write(.update)
        case .G: .write(.merging)
        case .K: .write(.contentIndependentMetadataOnly)
        case .M: .write(.moving)
        case .X: .write(.deleting)
        case .Z: .write(.replacing)
        }
    }
}

/// A path by the numbers of its names.
typealias Place = [Int]

/// The names that simulated items have.
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
        letter == .R && isWithoutChanges ? .read(.withoutChanges) : letter.access
    }
}

enum Rules {
    static func isBelow(_ a: Place, _ b: Place) -> Bool { a.count > b.count && a.starts(with: b) }

    /// C1 to C3.
    static func conflict(_ a: Want, _ b: Want) -> Bool {
        if a.letter == .R && b.letter == .R { return false }
        if a.place == b.place { return true }
        // The same package contains both, or is one of them.
        for (index, name) in a.place.enumerated() where Names.isPackage[name] {
            if b.place.starts(with: a.place[...index]) { return true }
        }
        if a.letter.isDeep && isBelow(b.place, a.place) { return true }
        return b.letter.isDeep && isBelow(a.place, b.place)
    }

    /// C4: what a presenter at a place is to do before an access, in that order.
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
            case .R: return want.isWithoutChanges ? [] : [.save(id)]
            case .G: return [.save(id)]
            case .X, .Z: return [accommodate]
            case .U, .K, .M: return []
            }
        }
        switch want.letter {
        case .R where isContained, .U where isContained, .G where isContained, .K where isContained:
            return []
        case .R:
            return want.isWithoutChanges
                ? [.relinquishToReader(id)] : [.relinquishToReader(id), .save(id)]
        case .U, .K, .M: return [.relinquishToWriter(id)]
        case .G: return [.relinquishToWriter(id), .save(id)]
        case .X, .Z: return [.relinquishToWriter(id), accommodate]
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
