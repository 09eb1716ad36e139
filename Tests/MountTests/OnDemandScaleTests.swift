import CLinux
import Foundation
import Glibc
import Support
import Testing

/// Many placeholders, and a disk that is full.
@Suite("contents on demand, at scale")
struct OnDemandScaleTests {
    @Test("listing a thousand placeholders twice, right after a start, does not ask the hub")
    func listing() throws {
        try OnDemandVolume.with { volume in
            for number in 0..<1000 { try volume.order("place", "\(number)", "1", "0") }
            try volume.unmount()
            try volume.set("offline")
            try volume.mount()
            for _ in 0..<2 {
                let lines = try Command("ls", "-l", "--color=always", volume.path).succeed()
                    .split(separator: "\n").dropFirst()
                #expect(lines.count == 1000)
                #expect(lines.allSatisfy { $0.contains(" 4194304 ") })
            }
            #expect(volume.asked.isEmpty)
            let used = try Command("du", "-sk", "\(volume.store)/tree").succeed()
            #expect(Int(used.prefix { $0.isNumber })! < 8000)
        }
    }

    @Test("many readers of many documents", arguments: [0, 3])
    func manyReaders(delay: Int) throws {
        try OnDemandVolume.with { volume in
            try volume.set("delay", "\(delay)")
            var sums = ""
            for number in 0..<40 {
                let bytes = try volume.absent("\(number)", bytes: 30_000 * (number % 5 + 1))
                try bytes.write(to: URL(filePath: "\(volume.store)/../\(number)"))
                sums += "\(number) "
            }
            let script = """
                for i in \(sums); do cmp \(volume.path)/$i \(volume.store)/../$i & done; wait
                for i in \(sums); do cmp \(volume.path)/$i \(volume.store)/../$i & done; wait
                """
            #expect(try Command("sh", "-c", script).succeed() == "")
            try volume.order("hydrate", "/")
            #expect(try volume.order("evict", "/").hasPrefix("40 "))
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("a full disk: ENOSPC, and no document counts as complete")
    func full() throws {
        let home = try TemporaryDirectory("full")
        try Command("mkdir", "\(home.path)/disk").succeed()
        try Command(
            "mount", "-t", "tmpfs", "-o", "size=24m", "none", "\(home.path)/disk"
        ).succeed()
        defer { umount2("\(home.path)/disk", Int32(MNT_DETACH)) }
        try OnDemandVolume.with(store: "\(home.path)/disk/store") { volume in
            try volume.order("place", "a", "8", "8")
            let result = try Command("cat", "\(volume.path)/a").run()
            #expect(result.status == 1)
            #expect(result.errors.contains("No space left"))
            #expect(try volume.order("dataless", "a") == "true")
            try volume.order("evict", "a")
            try "here".write(toFile: "\(volume.path)/b", atomically: false, encoding: .utf8)
            #expect(try volume.read("b") == Data("here".utf8))
        }
    }
}
