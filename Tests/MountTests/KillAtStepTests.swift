import Foundation
import Support
import Testing

/// How many steps are tried of each way of working: a few, or CONCORD_KILL_STEPS; `all` tries each.
private let tried = ProcessInfo.processInfo.environment["CONCORD_KILL_STEPS"] ?? "5"

/// kill -9 just before one of the calls by which the daemon changes files or answers the kernel.
/// `make soak` tries every step.
@Suite("kill -9 at each step")
struct KillAtStepTests {
    @Test(
        "nothing is lost or invented at whichever step the daemon is killed",
        arguments: KilledWork.allCases)
    func eachStep(work: KilledWork) throws {
        var random = SeededRandom(named: "KillAtStep", usual: 801)
        let killer = try StepKiller()
        try MountedVolume.with(environment: killer.environment) { volume in
            let steps = try StepKills(volume, killer, work).run(
                count: Int(tried), random: &random)
            print("\(work): \(steps) steps")
        }
    }

    @Test("a fault in the order of the steps is found") func planted() throws {
        var random = SeededRandom(seed: 801)
        let killer = try StepKiller(hasFault: true)
        let volume = try MountedVolume(environment: killer.environment)
        defer { volume.cleanUp() }
        let kills = StepKills(volume, killer, .renameOver)
        let found = #expect(throws: SupportError.self) {
            try kills.run(count: nil, random: &random)
        }
        let said = found.map { "\($0)" } ?? ""
        #expect(said.contains("(the late link): lost"), "\(said)")
    }
}
