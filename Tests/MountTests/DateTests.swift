import Foundation
import Glibc
import Support
import Testing

/// Dates far from now, as files of other people and of archives have them.
@Suite("POSIX: dates")
struct DateTests {
    private static let dates = [
        "2300-01-01 00:00:00.25", "2262-04-11 23:47:17", "9999-12-31", "1969-12-31 23:59:58.75",
        "1901-12-12", "1600-02-03", "1970-01-01 00:00:00",
    ]

    @Test("dates beyond 64 bits of nanoseconds are kept", arguments: DataPath.allCases)
    func far(_ way: DataPath) throws {
        try way.with { volume in
            let plain = try TemporaryDirectory("dates")
            for (index, date) in Self.dates.enumerated() {
                let name = "\(index).txt"
                for path in ["\(volume.path)/\(name)", "\(plain.path)/\(name)"] {
                    try Data("1\n".utf8).write(to: URL(fileURLWithPath: path))
                    try Command("touch", "-d", "\(date) UTC", path).succeed()
                }
                try Command("touch", "-d", "\(date) UTC", volume.path).succeed()
                #expect(try time("\(volume.path)/\(name)") == time("\(plain.path)/\(name)"))
            }
            try Command("touch", "-d", "2300-01-01 UTC", volume.path).succeed()
            try volume.waitForDisk()
            try volume.remount()
            for index in Self.dates.indices {
                let path = "\(volume.path)/\(index).txt"
                #expect(try time(path) == time("\(plain.path)/\(index).txt"))
                #expect(try History.of(path).versions.count == 1)
                let hidden = "\(volume.path)/.versions/\(index).txt"
                let listed = try Command("ls", "-l", "--time-style=full-iso", hidden).succeed()
                #expect(listed.contains("1.txt") || listed.contains(".txt"))
                try Command("sh", "-c", "echo 2 > \(path)").succeed()
            }
            #expect(try time(volume.path) == time(volume.tree))
            try volume.waitForDisk()
            for index in Self.dates.indices {
                let path = "\(volume.path)/\(index).txt"
                #expect(try History.of(path).versions.count == 2)
                #expect(try String(contentsOfFile: path, encoding: .utf8) == "2\n")
            }
        }
    }

    @Test("the directory of versions at any time can be opened")
    func past() throws {
        try MountedVolume.with { volume in
            try Data("1\n".utf8).write(to: URL(fileURLWithPath: "\(volume.path)/a.txt"))
            try volume.waitForDisk()
            for time in ["@9999-01-01", "@2262-04-12", "@9999-12-31T23:59:59"] {
                let listed = try Command("ls", "\(volume.path)/.versions/\(time)/").succeed()
                #expect(listed == "a.txt\n")
            }
            for time in ["@1970-01-01", "@999999w", "@999999d"] {
                _ = try Command("ls", "\(volume.path)/.versions/\(time)/").run()
            }
            #expect(try History.of("\(volume.path)/a.txt").versions.count == 1)
        }
    }

    /// The modification time in seconds and nanoseconds.
    private func time(_ path: String) throws -> [Int] {
        var status = stat()
        guard lstat(path, &status) == 0 else { throw SupportError("no \(path)") }
        return [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
    }
}
