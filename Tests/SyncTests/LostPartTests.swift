import Foundation
import Glibc
import Support
import Testing

/// A device that belongs to a hub loses a part of its store. What it lacks then is no deletion.
@Suite("A signed-in device loses a part of its store", .serialized) struct LostPartTests {
    enum Part: String, CaseIterable {
        case journal = "journal.sqlite*"
        case chunks
        case tree
    }

    @Test(
        "after a rebuilding, both devices have everything that the hub has",
        arguments: Part.allCases)
    func lost(_ part: Part) throws {
        try Fleet.with(2) { fleet in
            try fill(fleet)
            let device = fleet.devices[1]
            try device.unmount()
            try fleet.shell(0, "echo 3 > edited; echo 1 > new; rm gone")
            try fleet.settle([0])
            try Command("sh", "-ec", "rm -r \(device.store)/\(part.rawValue)").succeed()
            #expect(throws: SupportError.self) { try device.mount() }
            try device.mount("--rebuild")
            // The account is kept in the journal.
            if part == .journal { try fleet.signIn(device) }
            try expectEverything(fleet)
            try device.remount()
            try expectEverything(fleet)
        }
    }

    @Test("a week-old journal beside the tree of today undoes nothing elsewhere")
    func oldJournal() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > kept; echo 1 > edited; echo 1 > gone; mkdir d")
            try fleet.settle()
            let device = fleet.devices[1]
            try device.unmount()
            let journal = "\(device.store)/journal.sqlite"
            try Command("cp", "-a", journal, journal + ".old").succeed()
            try device.mount()
            try fleet.shell(0, "echo 2 > edited; mv kept d/; echo 1 > later; rm gone")
            try fleet.shell(1, "echo mine > mine; echo 2 > d/two")
            try fleet.settle()
            try device.unmount()
            try Command("sh", "-ec", "rm -f \(journal)-*; mv \(journal).old \(journal)").succeed()
            try device.mount()
            try fleet.expectEqual()
            #expect(try fleet.names(0) == ["d", "edited", "later", "mine"])
            #expect(fleet.text(0, "edited") == "2\n" && fleet.text(0, "d/kept") == "1\n")
            #expect(fleet.text(0, "mine") == "mine\n" && fleet.text(0, "d/two") == "2\n")
            for name in ["edited", "d/kept", "later", "mine"] {
                #expect(try fleet.conflicts(0, name) == [], "\(name)")
            }
        }
    }

    private func fill(_ fleet: Fleet) throws {
        try fleet.shell(
            0,
            """
            mkdir -p d/e P.rtfd; for i in 1 2 3 4 5; do echo $i > d/$i; done; echo 1 > d/e/deep
            echo 1 > P.rtfd/text; echo 2 > P.rtfd/twin; head -c 300000 /dev/urandom > P.rtfd/large
            echo 1 > edited; echo 1 > gone; head -c 3000000 /dev/urandom > large
            """)
        try fleet.settle()
        try fleet.shell(1, "echo 2 > edited; echo 2 > d/1")
        try fleet.settle()
    }

    private func expectEverything(_ fleet: Fleet) throws {
        try fleet.expectEqual()
        let names = try fleet.names(0)
        #expect(names.filter { $0 != "gone" } == ["P.rtfd", "d", "edited", "large", "new"])
        #expect(fleet.text(0, "edited") == "3\n" && fleet.text(0, "d/1") == "2\n")
        #expect(fleet.text(0, "d/e/deep") == "1\n" && fleet.text(0, "P.rtfd/text") == "1\n")
        // Without its journal the device does not know from which version `edited` was made.
        for name in ["d/1", "d/5", "large", "P.rtfd"] {
            #expect(try fleet.conflicts(0, name) == [], "\(name)")
        }
    }
}
