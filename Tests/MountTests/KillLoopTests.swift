import Foundation
import Support
import Testing

/// Kills the daemon this many times under load.
func runKillLoop(_ random: SeededRandom, rounds: Int) throws {
    try MountedVolume.with { volume in
        try KillLoop(volume: volume, random: random).run(rounds: rounds)
        try volume.unmount()
        let doctor = try Programs.fsctl("doctor", volume.store).run()
        #expect(doctor.status == 0, "\(doctor.output)\(doctor.errors)")
    }
}

/// A few rounds; `make soak` runs 200.
@Suite("kill -9 under load")
struct KillLoopTests {
    @Test("nothing that was confirmed is lost, whatever the load")
    func nothingIsLost() throws {
        try runKillLoop(SeededRandom(named: "KillLoop", usual: 501), rounds: 8)
    }

    @Test("after a kill, every document is complete")
    func documentsAreWhole() throws {
        try MountedVolume.with { volume in
            for round in 1...3 {
                let directory = "\(volume.path)/round \(round)"
                try FileManager.default.createDirectory(
                    atPath: directory, withIntermediateDirectories: false)
                for number in 1...200 {
                    let file = "\(directory)/document \(number % 20).txt"
                    try "\(number)\n".write(
                        toFile: file, atomically: number % 2 == 0, encoding: .utf8)
                }
                try volume.kill9()
                try volume.mount()
                for number in 181...200 {
                    let file = "\(directory)/document \(number % 20).txt"
                    #expect(try String(contentsOfFile: file, encoding: .utf8) == "\(number)\n")
                }
                try Programs.fsctl("wait", "--durable", "disk", volume.path).succeed()
                let doctor = try Programs.fsctl("doctor", volume.path).run()
                #expect(doctor.status == 0, "\(doctor.output)\(doctor.errors)")
                let history = try History.of("\(directory)/document 1.txt")
                #expect(history.versions.count == 10)
            }
        }
    }
}
