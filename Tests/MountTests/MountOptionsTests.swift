import Model
import Testing

@testable import Mount

@Suite struct MountOptionsTests {
    @Test func optionsOfFstabAreAccepted() throws {
        let options = try MountOptions(
            parsing: "defaults,_netdev,x-systemd.automount,nofail,ro,noexec,allow_other")
        #expect(options.allowOther && options.passthrough)
        #expect(options.kernel == ["ro", "noexec"])
    }

    @Test func anUnknownOptionIsNamed() {
        let error = #expect(throws: VolumeError.self) {
            try MountOptions(parsing: "rw,alow_other")
        }
        #expect(error?.code == .invalid)
        #expect(error?.message.contains("'alow_other'") == true)
    }

    @Test func parkedWorkOfOneQueueRunsOneByOne() {
        let line = SerialQueue()
        #expect(line.join {})
        #expect(!line.join {})
        #expect(!line.join {})
        #expect(line.leave() != nil)
        #expect(line.leave() != nil)
        #expect(line.leave() == nil)
        #expect(line.join {}, "The line is free again.")
    }
}
