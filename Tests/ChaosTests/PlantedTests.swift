import Foundation
import Model
import Reconcile
import Support
import Testing

@testable import chaos

@Suite("Planted faults") struct PlantedTests {
    @Test("each fault of the sources is planted by `chaos planted`, and no other name is")
    func list() {
        let names = Planted.faults.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(Set(PlantedFault.allCases.map(\.rawValue)).isSubset(of: names))
        for name in names {
            #expect(
                PlantedFault(rawValue: name) != nil || SyncPlannerBug(rawValue: name) != nil,
                "\(name)")
        }
    }

    @Test("nothing is planted in this process") func none() {
        let planted = PlantedFault.allCases.filter(\.isPlanted)
        #expect(planted.isEmpty)
        #expect(SyncPlannerBug.planted.isEmpty)
    }

    /// Debug programs have been built together with the tests, and only those can have a fault.
    @Test(
        "one of them is found by a run",
        .enabled(if: geteuid() == 0, "mounting through a mapping takes passthrough"))
    func found() throws {
        let home = try TemporaryDirectory("planted")
        var command = Command(
            "\(Programs.tests)/chaos", "planted", "makesMissingParts", "--shrink", "3", "--tries",
            "1", "--out", home.path)
        command.environment = ["CONCORD_BIN_DIR": Programs.tests]
        command.timeoutSeconds = 1_500
        let result = try command.run()
        #expect(result.status == 0, "\(result.output)\(result.errors)")
    }
}
