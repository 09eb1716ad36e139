import Support
import Testing

/// A device that the hub no longer knows.
@Suite("A revoked device", .serialized) struct RevokedDeviceTests {
    @Test("it signs in again with a new code, and waiting changes are sent") func again() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > edited; echo 1 > gone; echo 1 > moved")
            try fleet.expectEqual()
            let device = fleet.devices[0]
            try fleet.hub.run("revoke", "dev0")
            try fleet.shell(0, "echo 2 > edited; rm gone; mv moved there; echo 1 > new")
            try wait(for: "the device to know") {
                try fleet.report(device).hub?.state == "signed out" ? true : nil
            }
            for words in [["signout"], ["wait", "--durable", "hub", "--timeout", "2"]] {
                let place = words[0] == "wait" ? [device.path] : ["--at", device.path]
                let said = try Command(Programs.fsctl, arguments: words + place).run()
                #expect(said.status != 0 && said.errors.contains("fsctl signin"), "\(said.errors)")
            }
            // A code of another user is refused.
            try fleet.hub.run("user", "add", "bob")
            let lines = try fleet.hub.run("invite", "bob").split(separator: "\n")
            let other = try Programs.fsctl(
                "signin", fleet.hub.address, "--code", String(lines.last ?? ""), "--at", device.path
            ).run()
            #expect(other.status != 0, "\(other.output)")
            try fleet.signIn(device)
            try fleet.expectEqual()
            #expect(try fleet.names(1) == ["edited", "new", "there"])
            #expect(fleet.text(1, "edited") == "2\n")
            // A device that is signed in cannot sign in again.
            let twice = try Programs.fsctl(
                "signin", fleet.hub.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).run()
            #expect(twice.status != 0 && twice.errors.contains("already"))
        }
    }
}
