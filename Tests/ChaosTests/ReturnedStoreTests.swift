import Glibc
import Support
import Testing

@testable import chaos

/// What the store was when it was kept is not what the device was told last.
@Suite(
    "A store that comes back", .serialized,
    .enabled(if: geteuid() == 0, "mounting through a mapping takes passthrough"))
struct ReturnedStoreTests {
    struct Case: Sendable, CustomTestStringConvertible {
        /// What happens to the device before its store is kept or copied, and after that.
        let before: [Verb]
        let after: [Verb]
        var testDescription: String {
            "\(before.map(\.words)) before, \(after.map(\.words)) after"
        }
    }

    private static let cases = [
        Case(before: [.offline, .keep], after: [.online, .rollBack]),
        Case(before: [.signOut, .keep], after: [.signIn, .rollBack]),
        Case(before: [.keep], after: [.signOut, .rollBack]),
        Case(before: [.signInElsewhere, .keep], after: [.signOut, .signIn, .rollBack]),
        Case(before: [.offline, .copyStore], after: [.online]),
        Case(before: [.signOut, .copyStore], after: [.signIn]),
    ]

    @Test("is at its hub again when all faults have ended", arguments: cases)
    func mended(what: Case) throws {
        let history = try History()
        let world = try World(devices: 1, history: history)
        defer { world.end() }
        for verb in what.before + what.after { world.apply(Action(1, at: 0, "dev0", verb)) }
        world.mend()
        #expect(world.settle(World.Patience(seconds: 100, still: 60)) == nil)
        #expect(history.events(ofRound: 0).filter { $0.kind == .died }.map(\.detail) == [])
    }
}
