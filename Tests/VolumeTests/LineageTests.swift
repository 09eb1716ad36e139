import Model
import Testing

@testable import Volume

/// The common ancestor of two versions.
struct LineageTests {
    private var versions: [String: Version] = [:]
    private let device = Identifier.random()

    private func version(_ number: Int, _ parents: [Version], saved: Int64? = nil, size: UInt64 = 1)
        -> Version
    {
        Version(
            number: number, parents: parents.map(\.id), device: device, deviceName: "d",
            person: "p", program: "x", name: Name("n"), size: size, modified: 0,
            saved: saved ?? Int64(number), content: .sha256([UInt8(number)]))
    }

    @Test func twoEditsOfOne() {
        let base = version(1, [])
        let (mine, theirs) = (version(2, [base]), version(3, [base]))
        let lineage = Lineage([base, mine, theirs])
        #expect(lineage.base(of: mine.id, and: theirs.id)?.id == base.id)
        #expect(lineage.base(of: theirs.id, and: mine.id)?.id == base.id)
    }

    @Test func theNewestOfSeveral() {
        let first = version(1, [])
        let second = version(2, [first])
        let mine = version(5, [version(3, [second])])
        let middle = version(3, [second])
        let theirs = version(4, [second])
        let lineage = Lineage([first, second, middle, version(5, [middle]), theirs, mine])
        #expect(lineage.base(of: theirs.id, and: middle.id)?.id == second.id)
    }

    @Test func afterAMerge() {
        let base = version(1, [])
        let (a, b) = (version(2, [base]), version(3, [base]))
        let merged = version(4, [a, b])
        let (c, d) = (version(5, [merged]), version(6, [b]))
        let lineage = Lineage([base, a, b, merged, c, d])
        #expect(lineage.base(of: c.id, and: d.id)?.id == b.id)
    }

    @Test func oneIsAnAncestorOfTheOther() {
        let base = version(1, [])
        let next = version(2, [base])
        #expect(Lineage([base, next]).base(of: next.id, and: base.id) == nil)
    }

    @Test func theAncestryIsNotKnown() {
        let base = version(1, [])
        let unheard = version(2, [base])
        let (mine, theirs) = (version(4, [unheard]), version(3, [base]))
        let lineage = Lineage([base, mine, theirs])
        #expect(lineage.base(of: mine.id, and: theirs.id)?.id == base.id)
        // The two were made independently: it is known that they have no common ancestor.
        let (one, other) = (version(1, []), version(2, []))
        #expect(Lineage([one, other]).base(of: one.id, and: other.id) == nil)
    }

    @Test func aResolutionThatWasUndone() {
        let base = version(1, [])
        let (mine, theirs) = (version(2, [base]), version(3, [base]))
        let merged = version(4, [mine, theirs])
        let back = version(5, [merged, mine])
        let again = version(6, [theirs], saved: theirs.saved)
        let lineage = Lineage([base, mine, theirs, merged, back, again])
        #expect(lineage.original(of: again.id) == theirs.id)
        #expect(lineage.original(of: theirs.id) == nil)
        #expect(lineage.base(of: back.id, and: again.id)?.id == base.id)
    }
}
