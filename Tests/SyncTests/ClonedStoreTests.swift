import Foundation
import Support
import Testing

@Suite("A copied store", .serialized) struct ClonedStoreTests {
    /// Copies the store of the first device in its present state, and mounts both.
    private func clone(_ fleet: Fleet, isSettled: Bool = true) throws {
        let device = fleet.devices[0]
        let copy = "\(device.store)-copy"
        try device.unmount()
        try Command("cp", "-a", device.store, copy).succeed()
        // The copy is changed as on another machine: two mounts of one volume would have the same
        // control socket.
        try Command(
            "sqlite3", "\(copy)/journal.sqlite",
            "UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'volume'"
        ).succeed()
        try device.mount()
        if isSettled { try fleet.settle([0]) }
        try fleet.attach(store: copy)
    }

    @Test("both continue as separate devices, and nothing is deleted or comes back")
    func bothAlive() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "for i in {1..8}; do echo $i > a$i; echo $i > b$i; done")
            try fleet.expectEqual()
            try clone(fleet)
            for round in 1...8 {
                try fleet.shell(0, "echo \(round) > x\(round); rm a\(round)")
                try fleet.shell(2, "echo \(round) > y\(round); rm b\(round)")
            }
            try fleet.expectEqual(tries: 3)
            let names = (1...8).map { "x\($0)" } + (1...8).map { "y\($0)" }
            #expect(try fleet.names(1) == names)
            for device in fleet.devices {
                #expect(!device.said.contains("comparing everything"))
            }
            let devices = try Programs.fsctl("devices", "--at", fleet.devices[0].path).succeed()
            #expect(devices.split(separator: "\n").filter { $0.contains("dev") }.count == 3)
        }
    }

    /// The copy has a token that ended when the original signed out, and signs in with a code.
    @Test("one that has to sign in becomes a separate device, and does not sign the other one out")
    func signedOut() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "for i in {1..4}; do echo $i > a$i; done")
            try fleet.expectEqual()
            try fleet.offline(0)
            try clone(fleet, isSettled: false)
            try fleet.online(0)
            try fleet.shell(2, "echo y > y")
            let (original, copy) = (fleet.devices[0], fleet.devices[2])
            try Programs.fsctl("signout", "--force", "--at", original.path).succeed()
            try fleet.signIn(original)
            try fleet.settle([0, 1])
            try fleet.online(2)
            try wait(seconds: 30, for: "the copy to be refused") {
                try fleet.report(copy).hub?.state == "signed out" ? true : nil
            }
            try fleet.signIn(copy)
            try fleet.shell(0, "echo x > x; rm a1")
            try fleet.expectEqual(tries: 3)
            #expect(try fleet.names(1) == ["a2", "a3", "a4", "x", "y"])
            #expect(try fleet.report(original).hub?.state == "up")
            #expect(copy.said.contains("this store is a copy"))
        }
    }

    @Test("the one that was offline keeps its changes and sends them as another device")
    func offlineMeanwhile() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "for i in {1..4}; do echo $i > a$i; echo $i > b$i; done; echo 1 > e")
            try fleet.expectEqual()
            try fleet.offline(0)
            try clone(fleet, isSettled: false)
            try fleet.shell(0, "rm a*; echo 2 > e; echo 3 > e; mkdir d; mv b1 d; echo x > x")
            try fleet.devices[0].waitForDisk()
            try fleet.online(2)
            try fleet.shell(2, "rm b2; echo y > y")
            try fleet.settle([1, 2])
            try fleet.online(0)
            try fleet.expectEqual(tries: 3)
            #expect(try fleet.names(1) == ["b3", "b4", "d", "e", "x", "y"])
            #expect(fleet.text(1, "d/b1") == "1\n")
            #expect(fleet.text(1, "e") == "3\n")
            #expect(try fleet.conflicts(1, "e").isEmpty)
            #expect(!fleet.devices[0].said.contains("comparing everything"))
            // Each process continues as the device that it is.
            for index in [0, 2] { try fleet.devices[index].remount() }
            try fleet.shell(0, "echo 0 > last0; rm b3")
            try fleet.shell(2, "echo 2 > last2; rm b4")
            try fleet.expectEqual(tries: 3)
            #expect(try fleet.names(1) == ["d", "e", "last0", "last2", "x", "y"])
        }
    }
}
