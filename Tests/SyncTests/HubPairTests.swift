import Foundation
import Support
import Testing

/// Real devices and two hubs with one ledger and one bucket, behind a balancer. All other tests of
/// devices do the same with CONCORD_TEST_HUBS=2 (`make test-hubs`).
@Suite(
    "Two hubs behind a balancer", .serialized,
    .enabled(if: HubProcess.obstacleToSeveral == nil, "\(HubProcess.obstacleToSeveral ?? "")"))
struct HubPairTests {
    @Test("devices go on while hubs end one after the other, and nothing is lost")
    func restarts() throws {
        try Fleet.with(2, hub: try HubProcess(count: 2)) { fleet in
            #expect(fleet.hub.count == 2)
            try fleet.put(0, "edited", "first")
            try fleet.expectEqual()
            for round in 0..<2 {
                for index in 0..<2 {
                    for name in 0..<20 { try fleet.put(0, "\(round)-\(index)-\(name)", "x") }
                    try round == 0 ? fleet.hub.stop(index) : fleet.hub.kill9(index)
                    // The other hub does all the work meanwhile.
                    let text = "\(round) \(index)"
                    try fleet.put(1, "edited", text)
                    try wait(for: "a save through the other hub") {
                        fleet.text(0, "edited") == text ? true : nil
                    }
                    try fleet.settle()
                    try fleet.hub.start(index)
                }
            }
            try fleet.expectEqual()
            #expect(try fleet.names(1).count == 81)
            for index in 0..<2 { #expect(try fleet.conflicts(index, "edited") == []) }
        }
    }
}
