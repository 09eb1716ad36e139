import Foundation
import Glibc
import Hub
import HubProtocol
import Model
import Support
import Testing

@Suite(.enabled(if: geteuid() == 0, "needs root to mount a tmpfs"))
struct FullDiskTests {
    @Test func nothingHalfIsAcknowledgedAndItGoesOn() async throws {
        let scratch = try TemporaryDirectory("hub")
        let disk = scratch.path + "/disk"
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: false)
        try #require(mount("tmpfs", disk, "tmpfs", 0, "size=6m") == 0)
        defer { umount2(disk, Int32(MNT_DETACH)) }
        let hub = try await RunningHub(in: scratch, data: disk + "/data")
        var device = try await hub.device()
        let ballast = disk + "/ballast"
        try Data(count: 1 << 20).write(to: URL(filePath: ballast))
        var (saved, refusal): ([[UInt8]], Failure?) = ([], nil)
        var waiting: OperationEntry?
        for index in 0..<200 where refusal == nil {
            let contents = ChunkTests.noise(100_000, seed: UInt64(index))
            let entry = device.creation("\(index)", contents)
            do {
                try await device.upload([contents])
                try await device.commit([entry])
                saved.append(contents)
            } catch let failure as Failure {
                refusal = failure
                waiting = entry
            }
        }
        #expect(refusal?.code == .full)
        #expect(saved.count > 5)
        try FileManager.default.removeItem(atPath: ballast)
        let entry = try #require(waiting)
        let contents = ChunkTests.noise(100_000, seed: UInt64(saved.count))
        try await device.upload([contents])
        #expect(try await device.commit([entry]).results.first?.verdict == .applied)
        saved.append(contents)
        #expect(try await device.changes().changes.count == saved.count)
        let frames = try await device.read(saved.map { device.id(of: $0) })
        #expect(frames.map(\.bytes) == saved)
        let administration = try hub.administration()
        #expect(try await administration.check().faults == [])
        try administration.close()
        try await hub.stop()
    }
}
