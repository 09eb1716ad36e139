import Foundation
import Glibc
import Support
import Testing

/// A device is killed while a document arrives, and its log of events is lost, as after a loss of
/// power. Before it starts again, the document changes on another device.
@Suite("An arrival that ends with the device") struct KilledArrivalTests {
    private static let tried = ProcessInfo.processInfo.environment["CONCORD_KILL_STEPS"] ?? "10"

    /// `make soak` tries each step, as in `KillAtStepTests`.
    private func steps(of count: Int) -> [Int] {
        guard let tried = Int(Self.tried), tried < count else { return Array(1...max(1, count)) }
        var random = SeededRandom(named: "KilledArrival", usual: 803)
        return Set((0..<tried).map { _ in 1 + random.below(count) }).sorted()
    }

    /// The second device with a document that arrives, which is killed at a step.
    private final class Scene {
        let fleet: Fleet
        let killer = try! StepKiller()
        let device: MountedVolume
        /// The number of steps of one arrival.
        let steps: Int

        init(_ fleet: Fleet) throws {
            self.fleet = fleet
            try fleet.shell(0, "mkdir z")
            device = try fleet.join(environment: killer.environment)
            try fleet.settle()
            killer.arm(at: Int(Int32.max))
            try fleet.put(0, "z/0", "one")
            try fleet.settle()
            killer.disarm()
            steps = killer.steps
        }

        /// Returns false if the document arrives in fewer steps.
        func killOnArrival(of name: String, at step: Int) throws -> Bool {
            killer.arm(at: step)
            try fleet.put(0, name, "one")
            let hasDied = try wait(for: "the document to arrive") {
                device.isDead || fleet.text(1, name) == "one" ? device.isDead : nil
            }
            killer.disarm()
            guard hasDied else { return false }
            umount2(device.path, Int32(MNT_DETACH))
            try fleet.put(0, name, "two")
            try fleet.settle([0])
            for log in try FileManager.default.contentsOfDirectory(atPath: device.store)
            where log.hasPrefix("events.") {
                try FileManager.default.removeItem(atPath: "\(device.store)/\(log)")
            }
            return true
        }

        func expectOneDocument(_ name: String, _ step: Int) throws {
            let all = try FileManager.default.contentsOfDirectory(atPath: "\(device.path)/z")
            let others = all.filter { "z/\($0)".hasPrefix(name + " ") }
            #expect(others == [], "\(killer.call), step \(step)")
            #expect(fleet.text(1, name) == "two")
            #expect(try fleet.conflicts(1, name) == [])
        }
    }

    @Test("is the document that arrived, at whichever step the daemon is killed")
    func eachStep() throws {
        try Fleet.with(1) { fleet in
            let scene = try Scene(fleet)
            for step in steps(of: scene.steps) {
                let name = "z/\(step)"
                guard try scene.killOnArrival(of: name, at: step) else { break }
                try scene.device.mount()
                try fleet.settle()
                try scene.expectOneDocument(name, step)
            }
        }
    }
}
