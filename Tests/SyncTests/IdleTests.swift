import Support
import Testing

/// What a device does while nothing happens.
@Suite("Idle devices") struct IdleTests {
    @Test("a device that is offline or has lost its hub wakes only a few times a minute")
    func withoutHub() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "echo one > letter.txt")
            try fleet.settle()
            try fleet.offline(0)
            try Alarms.waitForRest(of: fleet.devices[0].pid)
            try fleet.hub.stop()
            try fleet.online(0)
            try Alarms.waitForRest(of: fleet.devices[0].pid)
            try fleet.hub.start()
            try fleet.settle()
        }
    }
}
