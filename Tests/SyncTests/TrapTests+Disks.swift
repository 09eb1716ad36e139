import Foundation
import Glibc
import Support
import Testing

private let isRoot = geteuid() == 0

// A device's disk fails at the wrong moment.
extension TrapTests {
    /// [traps 39] From a random moment on, each request of the disk fails with EIO, while newer
    /// saves replace queued ones and another device's changes are applied. Then the machine is
    /// started again.
    @Test(
        "36: the disk fails with EIO at any step",
        .enabled(if: isRoot, "a disk of its own takes root"))
    func failingDisk() throws {
        var random = SeededRandom(named: "failingDisk", usual: 39)
        try Fleet.with(1) { fleet in
            let disk = try LossyDisk()
            let device = try fleet.join(store: "\(disk.path)/store")
            try fleet.shell(1, "for i in {1..20}; do echo 0 > $i; done; mkdir theirs")
            try fleet.expectEqual()
            for round in 1...6 {
                // What is known to be safe of each document at this point.
                try fleet.offline(1)
                try fleet.shell(1, "for i in {1..20}; do echo \(round)a > $i; done")
                try device.waitForDisk()
                try fleet.shell(
                    0, "for i in {1..20}; do echo \(round) > theirs/\(round).$i; done")
                try fleet.settle([0])
                // The queue is sent while newer saves are made, and all of the other device's saves
                // arrive.
                try fleet.online(1)
                let saving = Command(
                    "bash", "-c",
                    """
                    cd '\(device.path)'
                    for i in {1..20}; do echo \(round)b > $i.new && mv $i.new $i || exit 0; done
                    """)
                let saver = Thread { _ = try? saving.run() }
                saver.start()
                usleep(UInt32(random.below(400_000)))
                try disk.cutPower()
                try wait(seconds: 60, for: "the program to end") { saver.isFinished ? true : nil }
                try device.kill9()
                umount2(device.path, Int32(MNT_DETACH))
                try disk.restorePower()
                // The machine has not really been restarted, so the journal's record of its start
                // is changed.
                try Command(
                    "sqlite3", "\(disk.path)/store/journal.sqlite",
                    "UPDATE meta SET value = 'an earlier one' WHERE key = 'boot'"
                ).succeed()
                try device.mount()
                try fleet.saveUnfinished(1)
                // Versions that the disk did not keep are found missing and sent after a moment.
                try fleet.expectEqual(tries: 5)
                // Each document must have the queued save or the newer one.
                for name in 1...20 {
                    let text = fleet.text(0, "\(name)") ?? "nothing"
                    #expect(
                        ["\(round)a\n", "\(round)b\n"].contains(text), "\(name): \(text)")
                    #expect(fleet.text(1, "theirs/\(round).\(name)") == "\(round)\n")
                }
            }
            try fleet.expectSound()
        }
    }

    enum Fault: String, CaseIterable { case full, readOnly, failing }

    /// [traps 55]
    @Test(
        "37: a local save cannot be set aside for another device's save",
        .enabled(if: isRoot, "a disk of its own takes root"), arguments: Fault.allCases)
    func settingAside(fault: Fault) throws {
        try Fleet.with(1) { fleet in
            let disk = try LossyDisk(megabytes: 128)
            let device = try fleet.join(store: "\(disk.path)/store")
            try fleet.put(0, "a.bin", "base")
            try fleet.expectEqual()
            try fleet.offline(1)
            // The file is larger than the space that is reserved for the journal.
            let mine = "mine " + String(repeating: "m", count: 900_000)
            let theirs = "theirs " + String(repeating: "t", count: 2_000_000)
            try fleet.put(1, "a.bin", mine)
            try device.waitForDisk()
            try fleet.put(0, "a.bin", theirs)
            try fleet.settle([0])
            let filler = "\(disk.path)/filler"
            if fault == .full {
                _ = try Command("fallocate", "-l", "1G", filler).run()
                _ = try Command(
                    "bash", "-c", "head -c 1G /dev/zero > '\(filler)'; true"
                ).run()
            }
            // The hub's changes arrive only after the disk has failed.
            fleet.hub.send(SIGSTOP)
            try fleet.online(1)
            if fault == .readOnly {
                // The disk behaves as after an error, because the kernel does not remount it
                // read-only while it is being written.
                try Command("mount", "-o", "remount,abort", disk.path).succeed()
            } else if fault == .failing {
                try disk.cutPower()
            }
            fleet.hub.send(SIGCONT)
            if fault == .full {
                try wait(seconds: 60, for: "word of the full disk; \(device.said)") {
                    let report = try fleet.report(device)
                    let words = [report.hub?.reason ?? ""] + report.problems
                    let all = words + (report.hub?.problems.values.map(\.self) ?? [])
                    return all.contains { $0.contains("full") || $0.contains("space") }
                        ? true : nil
                }
                #expect(fleet.text(1, "a.bin") == mine)
                try FileManager.default.removeItem(atPath: filler)
            } else {
                // A read-only or failing disk accepts no record, so only the contents are checked.
                if fault == .readOnly { #expect(fleet.text(1, "a.bin") == mine) }
                try device.kill9()
                umount2(device.path, Int32(MNT_DETACH))
                try disk.restorePower()
                try device.mount()
                let found = fleet.text(1, "a.bin")
                #expect(found == mine || found == theirs)
            }
            try fleet.expectEqual(tries: 3)
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a.bin"])
                let other = fleet.text(index, "a.bin") == mine ? theirs : mine
                let texts = try fleet.names(index, ".conflicts/a.bin").map {
                    fleet.text(index, ".conflicts/a.bin/\($0)")
                }
                #expect(texts == [other])
            }
            try fleet.expectSound()
        }
    }
}
