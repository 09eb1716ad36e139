import Foundation
import Glibc
import Support
import Testing

/// A device is killed while a document arrives, and its log of events is lost, as after a loss of
/// power. Before it starts again, the document changes on another device.
@Suite("A document that is arriving when the daemon is killed") struct KilledArrivalTests {
    private static let tried = ProcessInfo.processInfo.environment["CONCORD_KILL_STEPS"] ?? "10"

    /// Some steps at random, or all of them if CONCORD_KILL_STEPS is `all`, as in `make soak`.
    private func steps(of count: Int) -> [Int] {
        guard let tried = Int(Self.tried), tried < count else { return Array(1...max(1, count)) }
        var random = SeededRandom(named: "KilledArrival", usual: 803)
        return Set((0..<tried).map { _ in 1 + random.below(count) }).sorted()
    }

    enum Kind: CaseIterable {
        case file, package

        func document(_ number: Int) -> String { "z/\(number)" + (self == .file ? "" : ".rtfd") }
        func file(_ number: Int) -> String { document(number) + (self == .file ? "" : "/text") }
    }

    /// The second device, which is killed at a step while a document arrives.
    private final class Scene {
        let fleet: Fleet
        let kind: Kind
        let killer: StepKiller
        let device: MountedVolume
        /// The number of steps of one arrival.
        private(set) var steps = 0

        init(_ fleet: Fleet, _ kind: Kind) throws {
            (self.fleet, self.kind) = (fleet, kind)
            try fleet.shell(0, "mkdir z")
            killer = try StepKiller()
            device = try fleet.join(environment: killer.environment)
            try fleet.settle()
            killer.arm(at: Int(Int32.max))
            try save("one", 0)
            try fleet.settle()
            killer.disarm()
            steps = killer.steps
        }

        private func save(_ text: String, _ number: Int) throws {
            let prepare = kind == .file ? "" : "mkdir -p \(kind.document(number)); "
            try fleet.shell(0, "\(prepare)printf \(text) > \(kind.file(number))")
        }

        /// Saves a document whose name is the number of the step, and waits until the second device
        /// is killed at that step of its arrival. Returns false if the document has arrived before.
        func killOnArrival(at step: Int) throws -> Bool {
            killer.arm(at: step)
            try save("one", step)
            try wait(for: "the document to arrive") {
                device.isDead || fleet.text(1, kind.file(step)) == "one" ? true : nil
            }
            // The document can be read before the last steps of its arrival.
            if !device.isDead { try? fleet.settle() }
            killer.disarm()
            guard killer.steps >= step else { return false }
            try device.waitForDeath()
            umount2(device.path, Int32(MNT_DETACH))
            try save("two", step)
            try fleet.settle([0])
            try removeEventLog(ofStore: device.store)
            return true
        }

        func isThere(_ number: Int) -> Bool { fleet.text(1, kind.file(number)) == "two" }

        func expectOneDocument(_ number: Int) throws {
            let all = try FileManager.default.contentsOfDirectory(atPath: "\(device.path)/z")
            let others = all.filter {
                $0.hasPrefix("\(number) ") || $0.hasPrefix("\(number).rtfd ")
            }
            #expect(others == [], "\(killer.call), step \(number)")
            #expect(isThere(number))
            let path = "\(device.path)/\(kind.document(number))"
            let versions = try Programs.fsctl("versions", path).succeed()
            #expect(!versions.contains("dev1"), "\(killer.call), step \(number): \(versions)")
        }
    }

    @Test("is one document afterwards, at whichever step that is", arguments: Kind.allCases)
    func eachStep(kind: Kind) throws {
        try Fleet.with(1) { fleet in
            let scene = try Scene(fleet, kind)
            for step in steps(of: scene.steps) {
                guard try scene.killOnArrival(at: step) else { break }
                try scene.device.mount()
                try fleet.settle()
                try scene.expectOneDocument(step)
            }
        }
    }

    /// The device hears from the hub that the document has changed before its scan reaches it.
    @Test("is one document afterwards, although there is much to scan", arguments: Kind.allCases)
    func longScan(kind: Kind) throws {
        try Fleet.with(1) { fleet in
            let scene = try Scene(fleet, kind)
            // The file is in the tree, and the recorder does not know it yet.
            let step = scene.steps / 2
            try #require(try scene.killOnArrival(at: step))
            try #require(access("\(scene.device.tree)/\(kind.document(step))", F_OK) == 0)
            let more = "\(scene.device.tree)/a"
            try Command("sh", "-c", "mkdir \(more) && cd \(more) && seq 8000 | xargs touch")
                .succeed()
            try scene.device.mount()
            try wait(seconds: 120, for: "the change") { scene.isThere(step) ? true : nil }
            // The recorder answers for the document only when it has seen what comes before it.
            let path = scene.device.path
            try Programs.fsctl("wait", "--durable", "disk", "--timeout", "120", path).succeed()
            try scene.expectOneDocument(step)
        }
    }
}
