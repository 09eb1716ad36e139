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

    @Test("what was deleted on either side in the meantime comes back") func deleted() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > a; echo 1 > b; echo 1 > c")
            try fleet.expectEqual()
            try signOut(fleet, 1)
            try fleet.shell(0, "rm a")
            try fleet.shell(1, "rm b")
            try fleet.settle([0])
            try fleet.signIn(fleet.devices[1])
            try fleet.expectEqual()
            #expect(try fleet.names(0) == ["a", "b", "c"])
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
