import Foundation
import Glibc
import Support
import Testing

/// A device signs out, and in to the same hub again.
@Suite("Signing in again", .serialized) struct RejoiningTests {
    private func signOut(_ fleet: Fleet, _ index: Int) throws {
        try Programs.fsctl("signout", "--force", "--at", fleet.devices[index].path).succeed()
    }

    @Test("what others moved and saved in the meantime stays, and there is no conflict")
    func others() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo 1 > a; echo 1 > b; echo 1 > c")
            try fleet.expectEqual()
            try signOut(fleet, 1)
            try fleet.shell(0, "mv a d/a; echo other > a; echo 2 > b; sleep 1.5; echo 3 > b")
            try fleet.settle([0])
            try fleet.signIn(fleet.devices[1])
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a", "b", "c", "d"])
                #expect(fleet.text(index, "a") == "other\n" && fleet.text(index, "d/a") == "1\n")
                #expect(fleet.text(index, "b") == "3\n")
                for name in ["a", "b", "c", "d/a"] {
                    #expect(try fleet.conflicts(index, name) == [])
                }
            }
        }
    }

    /// The hub keeps contents only as long as a version there needs them.
    @Test("what was evicted here and replaced elsewhere in the meantime arrives")
    func evicted() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > a; echo 1 > b")
            try fleet.expectEqual()
            for name in ["a", "b"] {
                try Programs.fsctl("evict", "\(fleet.devices[1].path)/\(name)").succeed()
            }
            try signOut(fleet, 1)
            try fleet.shell(0, "echo 2 > a; mv b c")
            try fleet.settle([0])
            for _ in 0..<2 { try fleet.hub.run("gc", "--grace", "0") }
            try fleet.signIn(fleet.devices[1])
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a", "c"])
                #expect(fleet.text(index, "a") == "2\n" && fleet.text(index, "c") == "1\n")
                for name in ["a", "c"] { #expect(try fleet.conflicts(index, name) == []) }
            }
        }
    }

    @Test("what was saved here in the meantime is no conflict with what it was made from")
    func own() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > a; echo 1 > b")
            try fleet.expectEqual()
            try signOut(fleet, 0)
            try fleet.shell(
                0, "for i in 2 3; do echo $i > a; sleep 0.5; done; mv b c; echo new > b")
            try fleet.devices[0].waitForDisk()
            try fleet.signIn(fleet.devices[0])
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a", "b", "c"])
                #expect(fleet.text(index, "a") == "3\n" && fleet.text(index, "b") == "new\n")
                #expect(try fleet.conflicts(index, "a") == [])
            }
        }
    }

    /// Whether the device has sent something before decides how it joins again: the hub knows more
    /// of its operations than a device that begins from scratch does.
    @Test(
        "what another device deleted in the meantime stays deleted, what was deleted here does not",
        arguments: [false, true])
    func deleted(hasSent: Bool) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo 1 > a; echo 1 > b; echo 1 > c; echo 1 > d/x")
            try fleet.expectEqual()
            if hasSent { try fleet.shell(1, "echo 1 > sent") }
            try fleet.expectEqual()
            try signOut(fleet, 1)
            try fleet.shell(0, "rm a c; rm -r d")
            try fleet.shell(1, "rm b; echo 2 > c")
            try fleet.settle([0])
            try fleet.signIn(fleet.devices[1])
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["b", "c"] + (hasSent ? ["sent"] : []))
                #expect(fleet.text(index, "b") == "1\n" && fleet.text(index, "c") == "2\n")
            }
            try Programs.fsctl("undelete", "\(fleet.devices[1].path)/a").succeed()
            try fleet.expectEqual()
            #expect(fleet.text(0, "a") == "1\n")
        }
    }

    /// Two devices that were there before have the directory that was replaced; one of them has
    /// never sent anything.
    @Test("a directory that took another one's name in the meantime keeps it")
    func takenName() throws {
        try Fleet.with(3) { fleet in
            try fleet.shell(0, "mkdir x y; echo x > x/a; echo y > y/a; echo y > y/b")
            try fleet.shell(2, "echo 1 > sent")
            try fleet.expectEqual()
            for index in 1...2 { try signOut(fleet, index) }
            try fleet.shell(0, "rm y/*; mv -T x y; mkdir x; echo new > x/a")
            try fleet.settle([0])
            for index in 1...2 { try fleet.signIn(fleet.devices[index]) }
            try fleet.expectEqual()
            for index in 0..<3 {
                #expect(try fleet.names(index) == ["sent", "x", "y"])
                #expect(fleet.text(index, "y/a") == "x\n" && fleet.text(index, "x/a") == "new\n")
                #expect(fleet.text(index, "y/b") == nil)
                for name in ["x/a", "y/a"] { #expect(try fleet.conflicts(index, name) == []) }
            }
            for index in 0..<3 {
                #expect(
                    try History.texts(of: "\(fleet.devices[index].path)/y/a").last == "x\n")
            }
        }
    }

    /// Five changes, of which three are deletions.
    private func change(_ fleet: Fleet, _ index: Int) throws {
        try fleet.shell(index, "rm a; rm -r d; echo 2 > b; mv c e")
        try fleet.devices[index].waitForDisk()
    }

    private func refusedSignOut(_ fleet: Fleet, _ index: Int) throws -> String {
        let said = try Programs.fsctl("signout", "--at", fleet.devices[index].path).run()
        #expect(said.status != 0)
        return said.errors
    }

    /// Only what is here speaks for itself: an item that is missing does not say why.
    @Test("a deletion that was not sent before signing out comes back with its history")
    func queued() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo 1 > a; echo 1 > b; echo 1 > c; echo 1 > d/x")
            try fleet.expectEqual()
            try fleet.shell(0, "echo 2 > a")
            try fleet.expectEqual()
            try fleet.offline(1)
            try change(fleet, 1)
            let said = try refusedSignOut(fleet, 1)
            #expect(said.contains("5 changes are on this device only, 3 of them del"), "\(said)")
            #expect(said.contains("comes back"), "\(said)")
            #expect(try fleet.report(fleet.devices[1]).hub?.unsent == 5)
            try signOut(fleet, 1)
            #expect(try fleet.names(1) == ["b", "e"])
            try fleet.signIn(fleet.devices[1])
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a", "b", "d", "e"])
                #expect(fleet.text(index, "a") == "2\n" && fleet.text(index, "d/x") == "1\n")
                #expect(fleet.text(index, "b") == "2\n" && fleet.text(index, "e") == "1\n")
                for name in ["a", "b", "d/x", "e"] {
                    #expect(try fleet.conflicts(index, name) == [])
                }
            }
            #expect(try History.texts(of: "\(fleet.devices[1].path)/a") == ["1\n", "2\n"])
            // A deletion from now on is one.
            try fleet.shell(1, "rm a")
            try fleet.expectEqual()
            #expect(try fleet.names(0) == ["b", "d", "e"])
        }
    }

    @Test("at another hub the deletion stands, and the former hub still has the document")
    func otherHub() throws {
        let other = try HubProcess()
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo 1 > a; echo 1 > b; echo 1 > c; echo 1 > d/x")
            try fleet.expectEqual()
            try fleet.offline(1)
            try change(fleet, 1)
            try signOut(fleet, 1)
            let device = fleet.devices[1]
            try Programs.fsctl(
                "signin", other.address, "--code", try other.invite(), "--at", device.path
            ).succeed()
            try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            #expect(try fleet.names(1) == ["b", "e"])
            // Nothing is left there of what was agreed on with the former hub.
            let report = try fleet.report(device)
            #expect(report.hub?.unsent == 0 && report.hub?.problems == [:])
            #expect(try History.texts(of: "\(fleet.devices[1].path)/b") == ["1\n", "2\n"])
            try fleet.settle([0])
            #expect(try fleet.names(0) == ["a", "b", "c", "d"])
            // Back at the former hub, everything that either side has is there.
            try Programs.fsctl("signout", "--at", device.path).succeed()
            try fleet.signIn(device)
            try fleet.expectEqual()
            #expect(try Set(fleet.names(0)).isSuperset(of: ["a", "b", "d", "e"]))
            #expect(fleet.text(1, "a") == "1\n" && fleet.text(1, "d/x") == "1\n")
            let all = try reachableContents(in: device.path)
            #expect(all.contains(Data("2\n".utf8)))
            try other.stop()
            try other.check()
        }
    }

    /// What was agreed on with the one hub tells the other how old it is.
    @Test("coming back from another hub undoes nothing that was moved or protected meanwhile")
    func backFromOtherHub() throws {
        let other = try HubProcess()
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir x u; echo 1 > x/a; echo 1 > secret; echo 1 > own")
            try fleet.expectEqual()
            let device = fleet.devices[1]
            try signOut(fleet, 1)
            try Programs.fsctl(
                "signin", other.address, "--code", try other.invite(), "--at", device.path
            ).succeed()
            try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            try fleet.shell(0, "mv x y; chmod 600 secret")
            try fleet.settle([0])
            // What this device does at the other hub is newer.
            try fleet.shell(1, "mv u v; chmod 640 own")
            try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            try signOut(fleet, 1)
            try fleet.signIn(device)
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["own", "secret", "v", "y"])
                #expect(fleet.text(index, "y/a") == "1\n")
                let modes = try ["secret", "own"].map {
                    try FileStatus(of: "\(fleet.devices[index].path)/\($0)").permissions
                }
                #expect(modes == [0o600, 0o640])
            }
            try other.stop()
            try other.check()
        }
    }

    /// The device that comes to the other hub first has an older state than the second one.
    @Test("a device that comes late to another hub keeps what it knows to be newer")
    func lateAtOtherHub() throws {
        let other = try HubProcess()
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir x; echo 1 > x/a; echo 1 > secret; chmod 644 secret")
            try fleet.expectEqual()
            try fleet.offline(1)
            try fleet.shell(0, "mv x y; chmod 600 secret")
            try fleet.settle([0])
            for index in [1, 0] {
                let device = fleet.devices[index]
                try signOut(fleet, index)
                try Programs.fsctl(
                    "signin", other.address, "--code", try other.invite(), "--at", device.path
                ).succeed()
                try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            }
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["secret", "y"])
                let secret = "\(fleet.devices[index].path)/secret"
                #expect(try FileStatus(of: secret).permissions == 0o600)
            }
            try other.stop()
        }
    }

    @Test("contents that were replaced and removed right before are not taken for newer")
    func removedRightBefore() throws {
        try Fleet.with(2) { fleet in
            for round in 1...6 {
                let (one, other) = ("a\(round)", "b\(round)")
                try fleet.shell(0, "echo 1 > \(one); echo 1 > \(other)")
                try fleet.expectEqual()
                try fleet.shell(0, "echo 2 > \(one)")
                try fleet.settle()
                try fleet.shell(0, "echo 3 > \(other); mv \(other) \(one)")
                try signOut(fleet, 0)
                try fleet.shell(0, "rm \(one)")
                try fleet.signIn(fleet.devices[0])
                try fleet.expectEqual()
                #expect(try fleet.conflicts(1, one) == [])
            }
        }
    }

    @Test("signing out does not wait for a hub that is silent") func silentHub() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "echo 1 > a")
            try fleet.settle()
            fleet.hub.send(SIGSTOP)
            let begun = ContinuousClock.now
            try signOut(fleet, 0)
            #expect(ContinuousClock.now - begun < .seconds(40))
            fleet.hub.send(SIGCONT)
        }
    }
}
