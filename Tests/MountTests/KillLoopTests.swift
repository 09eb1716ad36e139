import Foundation
import Support
import Testing

/// Kills the daemon so many times under load.
func runKillLoop(_ random: SeededRandom, rounds: Int) throws {
    try MountedVolume.with { volume in
        try KillLoop(volume: volume, random: random).run(rounds: rounds)
        try volume.unmount()
        let doctor = try Programs.fsctl("doctor", volume.store).run()
        #expect(doctor.status == 0, "\(doctor.output)\(doctor.errors)")
    }
}

@Suite("kill -9 under load")
struct KillLoopTests {
    @Test("loses nothing that was promised, and leaves whole contents")
    func rounds() throws {
        try runKillLoop(SeededRandom(named: "KillLoop"), rounds: 15)
    }
}
