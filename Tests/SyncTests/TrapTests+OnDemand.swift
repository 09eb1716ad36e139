import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Contents on demand, and devices that only receive.
extension TrapTests {
    @Test(
        "32: more is pinned than the disk has room for",
        .enabled(if: geteuid() == 0, "mounting a small disk takes root"))
    func pinned() throws {
        let disk = try SmallDisk("160m")
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0, "mkdir film; for i in {1..12}; do head -c 20000000 /dev/urandom > film/$i; done")
            try fleet.settle()
            let other = try fleet.join(store: "\(disk.path)/store")
            try fleet.settle()
            let pin = Programs.fsctl("pin", "\(other.path)/film")
            let refused = try pin.run()
            #expect(refused.status != 0 && refused.errors.contains("Free some space"), "\(refused)")
            // Pinning left space for other programs.
            try fleet.shell(1, "head -c 4000000 /dev/urandom > mine; echo small > small")
            try wait(seconds: 60, for: "the small one elsewhere") {
                fleet.text(0, "small") == "small\n" ? true : nil
            }
            try wait(seconds: 60, for: "word of what is waited for") {
                try fleet.report(other).notices?.contains {
                    $0.contains("pinned") && $0.contains("wait for space")
                } == true ? true : nil
            }
            try disk.grow(to: "800m")
            // The downloads continue without another request.
            try wait(seconds: 60, for: "what is pinned") {
                try (1...12).allSatisfy { number in
                    let file = try FileStatus(of: "\(other.tree)/film/\(number)")
                    return file.allocated >= file.size
                } ? true : nil
            }
            try wait(seconds: 60, for: "the end of that notice") {
                try fleet.report(other).notices?.contains { $0.contains("pinned") } == true
                    ? nil : true
            }
            try fleet.expectSound()
        }
    }

    @Test("33: a file is replaced by another device while it is read, with equal size and time")
    func replacedWhileRead() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0,
                """
                for n in renamed written; do head -c 20000000 /dev/urandom > $n; done
                touch -d '2026-01-01 12:00:00' renamed written
                """)
            let before = try ["renamed", "written"].map {
                try Data(contentsOf: URL(filePath: "\(fleet.devices[0].path)/\($0)"))
            }
            try fleet.settle()
            let path = try fleet.join().path
            try fleet.settle()
            let files = try ["renamed", "written"].map { try OpenFile("\(path)/\($0)", O_RDONLY) }
            var read = try files.map { try $0.bytes(100_000) }
            try fleet.shell(
                0,
                """
                head -c 20000000 /dev/urandom > renamed.new
                touch -d '2026-01-01 12:00:00' renamed.new; mv renamed.new renamed
                head -c 20000000 /dev/urandom | dd of=written conv=notrunc status=none
                touch -d '2026-01-01 12:00:00' written
                """)
            try fleet.settle([0])
            for index in 0..<2 {
                while read[index].count < 20_000_000 {
                    let more = try files[index].bytes(500_000, at: read[index].count)
                    guard !more.isEmpty else { break }
                    read[index] += more
                }
                #expect(Data(read[index]) == before[index], "file \(index)")
                files[index].close()
            }
            try fleet.expectSound()
        }
    }

    /// [traps 51] In `make soak` 30,000 steps, with those of the next test.
    @Test("34: one device at full speed makes no conflict, also if the hub answers late")
    func onlyOneWritesFast() throws {
        let random = SeededRandom(named: "OnlyOneWrites", usual: 261_123)
        var delays = random
        let home = try TemporaryDirectory("model")
        try Fleet.with(2) { fleet in
            let model = "\(home.path)/model"
            try FileManager.default.createDirectory(
                atPath: model, withIntermediateDirectories: false)
            let tree = RandomTree(
                random: random, tested: fleet.devices[0].path, model: model, staysOpen: false)
            defer { tree.closeAll() }
            let isSoak = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] != nil
            for _ in 0..<(isSoak ? 150 : 5) {
                if delays.oneIn(3) { fleet.hub.send(SIGSTOP) }
                defer { fleet.hub.send(SIGCONT) }
                try tree.run(steps: 100, comparing: 100)
            }
            tree.closeAll()
            try fleet.settle()
            // The hub has sent no change to the writing device.
            try tree.compareTrees()
            for device in fleet.devices {
                let found = try Programs.fsctl("conflicts", device.path).succeed()
                #expect(found.hasPrefix("No document here is in conflict"), "\(found)")
                try Programs.fsctl("doctor", "--no-repair", device.path).succeed()
            }
        }
    }

    @Test("34: one writing device causes no conflict with a device that only receives")
    func onlyOneWrites() throws {
        let isSoak = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] != nil
        let random = SeededRandom(named: "OnlyOneWrites", usual: 261_123)
        let home = try TemporaryDirectory("model")
        try Fleet.with(2) { fleet in
            let model = "\(home.path)/model"
            try FileManager.default.createDirectory(
                atPath: model, withIntermediateDirectories: false)
            // A program that continues to save to a replaced file causes a conflict even on one
            // device.
            let tree = RandomTree(
                random: random, tested: fleet.devices[0].path, model: model, staysOpen: false)
            defer { tree.closeAll() }
            // The edits come at a person's pace. See "What the tests do not show" in Traps.md.
            for _ in 0..<(isSoak ? 600 : 40) {
                try tree.run(steps: 25, comparing: 25)
                tree.closeAll()
                try fleet.settle([0])
                for device in fleet.devices {
                    let found = try Programs.fsctl("conflicts", device.path).succeed()
                    #expect(found.hasPrefix("No document here is in conflict"), "\(found)")
                }
            }
            tree.closeAll()
            try fleet.settle()
            for device in fleet.devices {
                let found = try Programs.fsctl("conflicts", device.path).succeed()
                #expect(found.hasPrefix("No document here is in conflict"), "\(found)")
                try Programs.fsctl("doctor", "--no-repair", device.path).succeed()
            }
        }
    }
}
