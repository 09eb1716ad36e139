import CLinux
import Control
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// The costs of recording and restoring, in transactions and chunks.
@Suite("Costs of versions")
struct RecordingCostTests {
    @Test("a save costs at most three transactions; a burst of a hundred hardly more")
    func transactions() throws {
        try MountedVolume.with { volume in
            try volume.waitForDisk()
            let meter = try CostMeter(volume)
            let one = try meter.of { try save(["one"], in: volume) }
            #expect((1...3).contains(one.volume["transactions"] ?? 0), "\(one.volume)")
            let again = try meter.of { try save(["one"], in: volume) }
            #expect((1...3).contains(again.volume["transactions"] ?? 0), "\(again.volume)")
            let burst = try meter.of { try save((0..<100).map { "burst \($0)" }, in: volume) }
            #expect((1...10).contains(burst.volume["transactions"] ?? 0), "\(burst.volume)")
            let idle = try meter.of { usleep(1_500_000) }
            #expect(idle.volume == [:])
            let asking = try meter.of { try volume.waitForDisk() }
            #expect(asking.volume == [:], "waiting when all is done writes nothing")
            #expect(asking.requests == ["GETXATTR": 1], "fsctl asks the root for the socket")
        }
    }

    private func save(_ names: [String], in volume: MountedVolume) throws {
        for name in names {
            let file = try OpenFile("\(volume.path)/\(name).txt", O_WRONLY | O_CREAT | O_APPEND)
            try file.write("Dear reader of \(name),\n")
            file.close()
        }
        try volume.waitForDisk()
    }

    @Test("showing a version reads the chunks that are stored, each once")
    func chunks() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/large.bin"
            var random = SeededRandom(seed: 11)
            let old = (0..<1_000_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            try Data(old).write(to: URL(filePath: path))
            try volume.waitForDisk()
            try Data(old.reversed()).write(to: URL(filePath: path))
            try volume.waitForDisk()
            let meter = try CostMeter(volume)
            let history = try History.of(path)
            #expect(history.versions.count == 2)
            let shown = try meter.of {
                let bytes = try Programs.fsctl("show", path, "1").run().outputData
                #expect(Array(bytes) == old)
            }
            let reads = shown.volume["chunkReads"] ?? 0
            let stored = try storedChunks(in: volume)
            #expect(reads == stored, "\(shown.volume)")
            #expect(shown.volume["transactions"] == nil)
            let restored = try meter.of {
                try Programs.fsctl("restore", path, "1").succeed()
                try volume.waitForDisk()
            }
            #expect(try Array(Data(contentsOf: URL(filePath: path))) == old)
            // The kernel caches what it has read of a version.
            #expect((restored.volume["chunkReads"] ?? 0) <= reads, "\(restored.volume)")
        }
    }

    /// The number of chunks in the store, which are those of displaced contents.
    private func storedChunks(in volume: MountedVolume) throws -> Int? {
        let journal = "file:\(volume.store)/journal.sqlite?mode=ro"
        let text = try Command("sqlite3", journal, "SELECT count(*) FROM chunks").succeed()
        return Int(text.trimmingCharacters(in: .whitespacesAndNewlines))
    }
}
