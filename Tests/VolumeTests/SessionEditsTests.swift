import Model
import Testing

@testable import Volume

/// What a session did to one document, by its versions alone.
@Suite("Edits of a session") struct SessionEditsTests {
    private static let device = Identifier.random()
    private let choice = SessionChoice(session: WorkSession("s")!)

    /// Versions one after the other, saved by these sessions.
    private func line(_ sessions: String) -> [Version] {
        var versions: [Version] = []
        for (index, session) in sessions.enumerated() {
            var hash = [UInt8](repeating: 0, count: 32)
            hash[0] = UInt8(index)
            let parents = versions.last.map { [$0.id] } ?? []
            versions.append(
                Version(
                    number: index + 1, parents: parents,
                    kind: index == sessions.count - 1 ? .current : .history,
                    device: Self.device, deviceName: "d", person: "p", program: "x",
                    session: WorkSession(String(session)), name: Name("a"), size: 1,
                    modified: Int64(index), saved: Int64(index),
                    content: hash.withUnsafeBytes { Digest(.sha256, hash: $0) }))
        }
        return versions
    }

    private func edits(_ versions: [Version], since: Int64 = .min, lost: Set<Identifier> = [])
        -> SessionEdits
    {
        var choice = choice
        choice.since = since
        return SessionEdits(versions, current: versions.last?.id, lost: lost, by: choice)
    }

    /// As pairs of numbers: what a run ends with, and what was before it.
    private func runs(_ edits: SessionEdits) -> [[Int]] {
        edits.runs.map { [$0.end.number, $0.before.number] }
    }

    @Test func runsAreFound() {
        #expect(runs(edits(line("ass"))) == [[3, 1]])
        #expect(edits(line("ass")).plain?.number == 1)
        #expect(runs(edits(line("asbsc"))) == [[4, 3], [2, 1]])
        #expect(edits(line("asbs")).plain == nil)
        #expect(edits(line("abc")).isEmpty)
        #expect(runs(edits(line("asss"), since: 2)) == [[4, 2]])
    }

    @Test func aCreationIsFound() {
        #expect(edits(line("s")).isAlone && edits(line("sss")).isAlone)
        let others = edits(line("sa"))
        #expect(others.isCreation && !others.isAlone && others.runs.isEmpty)
        #expect(runs(edits(line("sas"))) == [[3, 2]])
    }

    @Test func whatWasThinnedIsNotGuessed() {
        var versions = line("asbs")
        // The third is gone: what the fourth was made from is not known.
        versions.remove(at: 2)
        let edits = edits(versions)
        #expect(edits.reason != nil && edits.plain == nil)
        var first = line("sss")
        first.removeFirst()
        #expect(!self.edits(first).isCreation && self.edits(first).reason != nil)
    }

    @Test func aLostConflictWasNeverShown() {
        var versions = line("asb")
        versions[1].kind = .history
        versions[2].parents = [versions[0].id]
        #expect(edits(versions, lost: [versions[1].id]).isEmpty)
        versions[1].kind = .conflict
        #expect(edits(versions).conflicts.map(\.number) == [2])
    }
}
