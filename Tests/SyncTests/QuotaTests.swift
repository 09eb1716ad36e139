import Hub
import Support
import Testing

@Suite("An account with a full quota", .serialized) struct QuotaTests {
    @Test("a document too large is reported, and others are sent") func tooLarge() async throws {
        let hub = try HubProcess()
        let administration = try Administration(DataDirectory(hub.data))
        try await administration.setQuota(of: "ann", 100_000)
        try administration.close()
        try Fleet.with(2, hub: hub) { fleet in
            try fleet.shell(0, "head -c 20000000 /dev/urandom > large")
            try wait(seconds: 60, for: "the device to say why") {
                let problems = try fleet.report(fleet.devices[0]).hub?.problems ?? [:]
                return problems.contains { "\($0.key) \($0.value)".contains("quota") } ? true : nil
            }
            try fleet.put(0, "small", "1")
            try wait(seconds: 60, for: "the small one to arrive") {
                fleet.text(1, "small") == "1" ? true : nil
            }
            #expect(try fleet.names(1) == ["small"])
        }
    }
}
