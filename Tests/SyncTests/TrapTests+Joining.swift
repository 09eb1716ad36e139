import Control
import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Devices that join, rules that change, and a first upload.
extension TrapTests {
    /// [traps 35]
    @Test("42: a rule names a folder that both devices change, and goes again")
    func ignoredFolder() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir -p d/e; for n in a b c e/f; do echo 1 > d/$n; done")
            try fleet.expectEqual()
            try fleet.shell(0, "echo '/d/' > .concordignore")
            try fleet.settle()
            for index in 0..<2 {
                #expect(try fleet.names(index, "d") == ["a", "b", "c", "e"], "device \(index)")
                try fleet.shell(
                    index,
                    """
                    echo by \(index) > d/a; echo by \(index) > d/new\(index)
                    mkdir d/folder\(index); echo by \(index) > d/folder\(index)/x
                    """)
            }
            try fleet.shell(0, "echo by 0 > d/b; mv d/e d/moved")
            try fleet.shell(1, "echo by 1 > d/c")
            for device in fleet.devices { try device.waitForDisk() }
            try fleet.settle()
            #expect(try !fleet.names(1, "d").contains("new0"))
            #expect(try !fleet.names(0, "d").contains("new1"))
            try fleet.shell(1, "rm .concordignore")
            try fleet.settle()
            try fleet.expectSound()
            for index in 0..<2 {
                let names = try fleet.names(index, "d")
                for name in ["a", "b", "c", "folder0", "folder1", "new0", "new1"] {
                    #expect(names.contains(name), "\(name) in \(names)")
                }
                let both: Set = ["by 0\n", "by 1\n"]
                let path = "\(fleet.devices[index].path)/d/a"
                #expect(try both.isSubset(of: History.texts(of: path)))
                let a = try [fleet.text(index, "d/a") ?? ""] + fleet.conflicts(index, "d/a")
                #expect(Set(a) == both)
                #expect(fleet.text(index, "d/b") == "by 0\n")
                #expect(fleet.text(index, "d/c") == "by 1\n")
                let f = ["d/e/f", "d/moved/f"].compactMap { fleet.text(index, $0) }
                #expect(f == ["1\n"])
            }
        }
    }

    /// [traps 35]
    @Test("42: a folder in which another device has ignored files is deleted")
    func ignoredLeftovers() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                echo '*.log' > .concordignore
                mkdir -p d/e; for n in a b c e/f; do echo 1 > d/$n; done
                """)
            try fleet.expectEqual()
            try fleet.shell(1, "echo 1 > d/x.log; echo 1 > d/e/y.log")
            try fleet.devices[1].waitForDisk()
            try fleet.shell(0, "rm -r d")
            try wait(seconds: 60, for: "the deletion") {
                fleet.text(1, "d/a") == nil && fleet.text(1, "d/e/f") == nil ? true : nil
            }
            let path = fleet.devices[1].path
            try Programs.fsctl("wait", "--durable", "hub", path).succeed()
            let left = try FileManager.default.subpathsOfDirectory(atPath: path).sorted()
            #expect(left == [".concordignore", "d", "d/e", "d/e/y.log", "d/x.log"])
            #expect(try fleet.report(fleet.devices[1]).hub?.unsent == 0)
            #expect(try fleet.names(0) == [".concordignore"])
            // What is saved there later is sent again, and the ignored files stay.
            try fleet.shell(1, "echo new > d/e/new; echo more > other")
            try wait(seconds: 60, for: "what is saved there") {
                fleet.text(0, "d/e/new") == "new\n" && fleet.text(0, "other") == "more\n"
                    ? true : nil
            }
            try fleet.shell(1, "rm d/x.log d/e/y.log")
            try fleet.expectSound()
        }
    }

    /// [traps 37] In `make soak`: 800 folders and 5,000 files.
    @Test("43: a first upload is interrupted by kill -9 again and again")
    func interruptedUpload() throws {
        let isSoak = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] != nil
        let (folders, files, kills) = isSoak ? (800, 5000, 20) : (60, 400, 6)
        try Fleet.with(2) { fleet in
            try fleet.offline(0)
            let script = """
                import os
                for d in range(\(folders)): os.makedirs("top/%d" % (d % 20) + "/%d" % d)
                for f in range(\(files)):
                    d = f % \(folders)
                    with open("top/%d/%d/%d" % (d % 20, d, f), "w") as file:
                        if f % 10: file.write("text %d " % f * (f % 200))
                """
            try fleet.shell(0, "python3 -c '\(script)'")
            let device = fleet.devices[0]
            try device.waitForDisk()
            let all = try fleet.report(device).hub?.unsent ?? 0
            #expect(all >= folders + files)
            try fleet.online(0)
            for kill in 1...kills {
                try wait(seconds: 120, for: "progress before kill \(kill)") {
                    let left = try fleet.report(device).hub?.unsent ?? all
                    return left < all - all * kill / (kills + 2) ? true : nil
                }
                try device.kill9()
                try device.mount()
            }
            try fleet.settle(seconds: 300)
            try fleet.join()
            try fleet.expectSound()
            let names = try fleet.names(1, "top")
            #expect(names == (0..<20).map { "\($0)" }.sorted())
            let paths = try FileManager.default.subpathsOfDirectory(
                atPath: "\(fleet.devices[1].path)/top")
            #expect(paths.count == 20 + folders + files)
            let versions = try Command(
                "sqlite3", "file:\(device.store)/journal.sqlite?mode=ro",
                "SELECT count(*), count(DISTINCT item) FROM versions"
            ).succeed()
            let written = (0..<files).count { $0 % 10 != 0 }
            #expect(versions == "\(written)|\(written)\n", "each save is one version")
        }
    }

    /// [traps 67] The devices of a fleet have names of their own; these do not.
    @Test("44: devices of one name are told apart") func equalNames() throws {
        try Fleet.with(0) { fleet in
            for _ in 0..<3 { try fleet.join(named: "laptop") }
            try fleet.shell(0, "echo 0 > edited")
            try fleet.expectEqual()
            for index in 0..<3 { try fleet.offline(index) }
            for index in 0..<3 {
                try fleet.shell(index, "echo by \(index) > edited; echo by \(index) > new.txt")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<3 { try fleet.online(index) }
            try fleet.expectSound()
            let texts = ["by 0\n", "by 1\n", "by 2\n"]
            for index in 0..<3 {
                let names = try fleet.names(index).filter { $0.hasPrefix("new") }
                #expect(names.compactMap { fleet.text(index, $0) }.sorted() == texts, "\(names)")
                let edited =
                    try [fleet.text(index, "edited") ?? ""]
                    + fleet.conflicts(index, "edited")
                #expect(edited.sorted() == texts)
            }
            let path = fleet.devices[0].path
            let listed = try Programs.fsctl("devices", "--at", path).succeed()
            let lines = listed.split(separator: "\n").filter { $0.contains("laptop") }
            #expect(lines.count == 3, "\(listed)")
        }
    }

    /// [traps 52]
    @Test(
        "45: devices join with the bytes of both sides of a conflict, one of them while it saves",
        arguments: [nil, 0, 30_000, 200_000] as [UInt32?])
    func bothSides(microseconds: UInt32?) throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "f", "base")
            try fleet.expectEqual()
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.put(index, "f", "by \(index)")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.settle()
            for joined in 0..<2 {
                try fleet.join { device in
                    try Data("by \(joined)".utf8).write(to: URL(filePath: "\(device.path)/f"))
                    try device.waitForDisk()
                }
                if let microseconds {
                    usleep(microseconds)
                    try fleet.put(2 + joined, "f", "saved \(joined)")
                }
            }
            try fleet.expectSound()
            var texts = ["by 0", "by 1"]
            if microseconds != nil { texts += ["saved 0", "saved 1"] }
            let current = fleet.text(0, "f") ?? ""
            let conflicts = try fleet.conflicts(0, "f")
            if microseconds == nil {
                #expect(([current] + conflicts).sorted() == texts)
            }
            for index in 0..<4 {
                #expect(try fleet.names(index) == ["f"])
                #expect(fleet.text(index, "f") == current)
                #expect(try fleet.conflicts(index, "f") == conflicts)
            }
            // Devices that join later do not get the history before.
            for index in 0..<2 {
                let contents = try reachableContents(in: fleet.devices[index].path)
                for text in texts { #expect(contents.contains(Data(text.utf8)), "\(text)") }
            }
        }
    }
}
