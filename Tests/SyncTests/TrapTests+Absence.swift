import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Deletions, and devices that were away.
extension TrapTests {
    @Test("24: a full directory is removed while older states of its files come back from the hub")
    func emptied() throws {
        try Fleet.with(2) { fleet in
            // With fewer kept files this would be a mass deletion, which is held back.
            try fleet.shell(0, "mkdir kept; for i in {1..300}; do echo > kept/$i; done")
            for round in 0..<8 {
                try fleet.shell(
                    0,
                    """
                    mkdir d; for i in {1..60}; do echo \(round) > d/$i; done
                    for i in {1..60}; do echo again > d/$i; chmod 640 d/$i; done
                    """)
                // The deletion comes at a different moment each time: before, while and after the
                // hub announces the files.
                try wait(seconds: 60, for: "\(round * 8) of them to arrive") {
                    (try? fleet.names(1, "d").count) ?? 0 >= round * 8 ? true : nil
                }
                try fleet.shell(0, "rm d/*; rmdir d")
                if round % 2 == 1 { try fleet.expectEqual() }
                #expect(access("\(fleet.devices[0].path)/d", F_OK) != 0)
            }
            try fleet.expectSound()
            for index in 0..<2 { #expect(try fleet.names(index) == ["kept"]) }
        }
    }

    @Test(
        "27: an edit made offline outlives the deletion elsewhere", arguments: [false, true])
    func editedAway(isDown: Bool) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > edited; : > filled; mkdir d; echo 1 > d/edited")
            try fleet.expectEqual()
            try fleet.offline(0)
            try fleet.shell(0, "echo 2 > edited; echo first > filled; echo 2 > d/edited")
            try fleet.devices[0].waitForDisk()
            if isDown { try fleet.devices[0].unmount() }
            try fleet.shell(1, "rm -r edited filled d")
            try fleet.settle([1])
            if isDown { try fleet.devices[0].mount() }
            // The document never disappears on the device where it was edited.
            let own = try OpenFile("\(fleet.devices[0].tree)/edited", O_RDONLY)
            try fleet.online(0)
            try fleet.expectSound()
            #expect(try own.status().links == 1)
            own.close()
            for index in 0..<2 {
                #expect(fleet.text(index, "edited") == "2\n")
                #expect(fleet.text(index, "filled") == "first\n")
                #expect(fleet.text(index, "d/edited") == "2\n")
            }
        }
    }

    @Test("28: a device that was away for long restores nothing deleted and overwrites nothing")
    func awayForLong() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                1, "for n in gone moved kept both held; do echo 1 > $n; done; mkdir d; echo 1 > d/f"
            )
            try fleet.expectEqual()
            let path = fleet.devices[1].path
            try fleet.offline(1)
            let held = try OpenFile("\(path)/held", O_RDWR)
            try fleet.shell(1, "echo mine > both")
            try fleet.devices[1].waitForDisk()
            for round in 2...12 {
                try fleet.shell(
                    0,
                    """
                    for i in {1..20}; do echo \(round) > passing$i; done; rm passing*
                    echo \(round) > kept; echo theirs \(round) > both; echo \(round) > held
                    """)
                try fleet.settle([0])
            }
            try fleet.shell(0, "rm -r gone d; mv moved there; mkdir d; echo new > d/g")
            try fleet.settle([0])
            try fleet.hub.run("gc")
            try fleet.online(1)
            try wait(seconds: 60, for: "what was done meanwhile") {
                let isThere = fleet.text(1, "kept") == "12\n" && fleet.text(1, "d/g") == "new\n"
                return isThere ? true : nil
            }
            // A handle that is open for writing keeps the version that it opened.
            #expect(try held.text() == "1\n")
            try held.write("late\n", at: 0)
            held.close()
            try fleet.expectEqual(tries: 5)
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["both", "d", "held", "kept", "there"])
                #expect(try fleet.names(index, "d") == ["g"])
                #expect(fleet.text(index, "kept") == "12\n")
                #expect(try all(fleet, index, "both").isSuperset(of: ["mine\n", "theirs 12\n"]))
                #expect(try all(fleet, index, "held").isSuperset(of: ["late\n", "12\n"]))
            }
            try fleet.expectSound()
        }
    }

    /// Returns the current contents of a document and its conflict versions.
    private func all(_ fleet: Fleet, _ index: Int, _ path: String) throws -> Set<String> {
        Set(try fleet.conflicts(index, path) + [fleet.text(index, path) ?? ""])
    }

    @Test("29: another device's changes cannot be made here for a while") func immovable() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > removed; echo 1 > edited; echo 1 > gone; echo 1 > lost")
            try fleet.expectEqual()
            let tree = fleet.devices[1].tree
            // The attribute makes even root's writes fail with EPERM.
            let fixed = try Command("chattr", "+i", "\(tree)/removed", "\(tree)/edited").run()
            guard fixed.status == 0 else { return }
            let loose = Command("chattr", "-i", "\(tree)/removed", "\(tree)/edited")
            defer { _ = try? loose.run() }
            // The files are deleted here before the other device's deletion and edit arrive.
            try fleet.offline(1)
            try fleet.shell(1, "rm gone lost")
            try fleet.shell(0, "rm removed gone; echo 2 > edited; echo 2 > lost; echo 1 > other")
            try fleet.settle([0])
            try fleet.online(1)
            let problems = try wait(seconds: 60, for: "both to be told as problems") {
                let problems = try fleet.report(fleet.devices[1]).hub?.problems ?? [:]
                return problems["removed"] != nil && problems["edited"] != nil ? problems : nil
            }
            #expect(problems["gone"] == nil && problems["lost"] == nil)
            try wait(seconds: 60, for: "the others not to wait") {
                fleet.text(1, "other") != nil && fleet.text(0, "lost") != nil ? true : nil
            }
            // The remaining file does not become a new document of this device.
            #expect(fleet.text(0, "removed") == nil && fleet.text(1, "removed") == "1\n")
            #expect(fleet.text(0, "edited") == "2\n" && fleet.text(1, "edited") == "1\n")
            try loose.succeed()
            try wait(seconds: 120, for: "both to be tried again") {
                fleet.text(1, "removed") == nil && fleet.text(1, "edited") == "2\n" ? true : nil
            }
            try fleet.expectSound()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["edited", "lost", "other"])
                #expect(fleet.text(index, "lost") == "2\n")
            }
        }
    }

    @Test("31: offline changes survive a restart before they are sent")
    func restarted() throws {
        try Fleet.with(2) { fleet in
            try fleet.hub.stop()
            try fleet.shell(
                0,
                "mkdir -p d/e; echo 1 > d/e/small; head -c 3000000 /dev/urandom > d/large; : > d/0"
            )
            let sum = try Command("sha256sum", "\(fleet.devices[0].tree)/d/large").succeed()
            for isClean in [true, false] {
                if isClean {
                    try fleet.devices[0].unmount()
                } else {
                    try fleet.devices[0].kill9()
                }
                try fleet.devices[0].mount()
                #expect(try fleet.names(0, "d") == ["0", "e", "large"])
                #expect(fleet.text(0, "d/e/small") == "1\n")
            }
            try fleet.hub.start()
            try fleet.expectEqual()
            let theirs = try Command("sha256sum", "\(fleet.devices[1].path)/d/large").succeed()
            #expect(theirs.prefix(64) == sum.prefix(64))
            try fleet.shell(0, "cat d/large d/e/small > /dev/null; rm -r d")
            try fleet.expectSound()
            for index in 0..<2 { #expect(try fleet.names(index) == []) }
        }
    }
}
