import Control
import Foundation
import Model
import Support
import Testing

@testable import FileCoordination

/// How many requests it takes to know the state of many items.
@Suite("Inquiries") struct InquiryTests {
    @Test("what is the same for all items of a volume is requested once for each look")
    func once() async throws {
        let mount = try FakeMount()
        for number in 0..<50 { try mount.file("d/\(number).txt") }
        mount.desk.state.withLock { state in
            state.answers = { request in
                switch (request.verb, request.path) {
                case ("identity", _):
                    var report = IdentityReport(name: "volume")
                    report.token = "token"
                    return .identity(report)
                case ("status", nil): return .volume(InquiryTests.volume)
                case ("status", let path?) where request.entries == true:
                    let isTop = path.text.isEmpty
                    let names = isTop ? ["d"] : (0..<50).map { "\($0).txt" }
                    // Uploading items: the volume is asked for the progress.
                    return .entries(
                        EntriesReport(groups: [
                            EntriesReport.Group(
                                kind: isTop ? "directory" : "file", state: "uploading",
                                durability: "disk", conflicts: false, names: names.map(RawText.init)
                            )
                        ]))
                case ("status", let path?):
                    return .document(
                        DocumentReport(
                            id: path.text, kind: "directory", state: "uploading",
                            durability: "disk", versions: 1, size: 4, current: 1))
                default: return nil
                }
            }
        }
        let query = MetadataQuery(searchScopes: [URL(filePath: mount.root)])
        for await update in query.updates {
            #expect(update.results.count == 51)
            #expect(update.results.allSatisfy { $0.ubiquity?.isUploading == true })
            break
        }
        let asked = mount.desk.state.withLock { $0.looked }
        #expect(asked.count { $0.verb == "identity" } == 1)
        // The root itself, and what it and the directory in it contain.
        #expect(asked.count { $0.verb == "status" && $0.path != nil } == 3)
        #expect(asked.allSatisfy { $0.path == nil || $0.local == true }, "the hub is not asked")
        // One request precedes the look, to find what has changed.
        #expect(asked.count { $0.verb == "status" && $0.path == nil } == 2)
    }

    private static var volume: VolumeReport {
        var report = VolumeReport(
            volume: "v", device: "d", name: "volume", store: RawText("/"), tree: RawText("/"))
        report.hub = HubReport(
            address: "", user: "", volume: "", state: "up", reason: "", head: 0, cursor: 0)
        return report
    }
}
