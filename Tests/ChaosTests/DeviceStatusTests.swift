import Testing

@testable import chaos

@Suite("The status of a device") struct DeviceStatusTests {
    private func report(
        unsent: Int, problems: [String] = [], atHub: [String: String] = [:]
    ) -> VolumeLine.Object {
        let first: VolumeLine.Object = ["path": "r2/own1/b", "reason": "has not been sent"]
        let hub: VolumeLine.Object = [
            "state": "up", "head": 7, "cursor": 7, "unsent": unsent,
            "waiting": unsent > 0 ? [first] : [], "problems": atHub,
        ]
        return ["hub": hub, "problems": problems]
    }

    @Test("a device with nothing to send is in step, and one that is signed out is not")
    func usual() throws {
        #expect(try #require(DeviceStatus(report(unsent: 0))).unrest() == nil)
        #expect(DeviceStatus([:]) == nil)
    }

    /// It is sent when it is saved again.
    @Test("a new document that a loss of power may have left unfinished is not waited for")
    func unfinished() throws {
        let problem = "r2/own1/b was being saved when the machine stopped, so it may hold a part."
        #expect(try #require(DeviceStatus(report(unsent: 1, problems: [problem]))).unrest() == nil)
        #expect(try #require(DeviceStatus(report(unsent: 2, problems: [problem]))).unrest() != nil)
        #expect(try #require(DeviceStatus(report(unsent: 1))).unrest() != nil)
        #expect(
            try #require(DeviceStatus(report(unsent: 1, problems: ["r2/own1/" + problem]))).unrest()
                != nil)
    }

    /// A placeholder is left, which says so.
    @Test("what a hub that came back has lost, and nobody can send, is not waited for")
    func lost() throws {
        let problems = ["r2/own1/b": "\(DeviceStatus.lost) Save it again."]
        let status = try #require(DeviceStatus(report(unsent: 1, atHub: problems)))
        #expect(status.unrest(hubLostContents: true) == nil)
        #expect(status.unrest() != nil)
        #expect(status.problems.contains("r2/own1/b: \(DeviceStatus.lost)"))
    }
}
