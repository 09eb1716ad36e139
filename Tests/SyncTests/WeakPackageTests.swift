import Foundation
import Support
import Testing

/// Changes of a weak package under one claim are never partly visible to programs that use claims,
/// here or on another device; each of its files is a separate document (Rows.md, A12.5 to A12.10).
@Suite("Weak packages", .serialized) struct WeakPackageTests {
    @Test("A12.5, A12.8: index and payload always agree") func batches() throws {
        try withBox { fleet, box, there in
            let writer = taking(turns: 4, at: box) { number in
                """
                echo \(number) > \(box)/index; sleep 0.6
                echo \(number) > \(box)/data/payload; echo \(number) > \(box)/new\(number)
                """
            }
            var seen: Set<String> = []
            try wait(seconds: 60, for: "the last number") { () throws -> Bool? in
                let words = try read(there, "; ls \(there)")
                #expect(words[0] == words[1], "\(words)")
                let last = Int(words[0]) ?? 0
                #expect(words.count { $0.hasPrefix("new") } == last, "\(words)")
                seen.insert(words[0])
                return last == 4 ? true : nil
            }
            #expect(seen.count > 1)
            try wait(seconds: 20, for: "the writer") { writer.isFinished ? true : nil }
            try fleet.expectEqual()
        }
    }

    @Test("A12.6: claims in quick succession are never mixed") func quick() throws {
        try withBox { fleet, box, there in
            let writer = taking(turns: 20, at: box, pause: { UInt32($0 % 5) * 100_000 }) { number in
                """
                echo \(number) > \(box)/index; sleep 0.0\(number % 4)
                echo \(number) > \(box)/data/payload; sleep 0.1
                """
            }
            try wait(seconds: 60, for: "the last number") { () throws -> Bool? in
                let words = try read(there)
                #expect(words[0] == words[1], "\(words)")
                return words[0] == "20" ? true : nil
            }
            try wait(seconds: 20, for: "the writer") { writer.isFinished ? true : nil }
            try fleet.expectEqual()
        }
    }

    @Test("changes that are uploading when the next claim begins wait for it")
    func overtaken() throws {
        try withBox { fleet, box, there in
            let device = fleet.devices[0]
            try Programs.fsctl("limit", "--up", "20", "--at", device.path).succeed()
            let payload = "(echo 1; head -c 300000 /dev/urandom) > \(box)/data/payload"
            let first = "echo 1 > \(box)/index; \(payload)"
            try Programs.fsctl("coordinate", "write", box, "--", "sh", "-c", first).succeed()
            try wait(seconds: 20, for: "the upload to begin") {
                try Programs.fsctl("status", device.path).succeed().contains("kB/s, down")
                    ? true : nil
            }
            // The next claim, which ends when the test says so.
            let next = try Beside(
                "coordinate", "write", box, "--", "sh", "-c",
                "echo 2 > \(box)/index; echo written; read line; echo 2 > \(box)/data/payload")
            try next.wait(for: "written")
            try wait(seconds: 20, for: "its first half to be recorded") {
                try History.of("\(box)/index").versions.count == 3 ? true : nil
            }
            try Programs.fsctl("limit", "--up", "0", "--at", device.path).succeed()
            try fleet.shell(0, "echo mark > mark")
            try wait(seconds: 20, for: "what was saved later") {
                fleet.text(1, "mark") == "mark\n" ? true : nil
            }
            let words = ["index", "data/payload"].map {
                try? Command("head", "-n", "1", "\(there)/\($0)").succeed()
            }
            #expect(words == ["0\n", "0\n"])
            next.tell("go on")
            #expect(try next.waitForEnd() == 0)
            try fleet.expectEqual()
            #expect(try read(there) == ["2", "2"])
        }
    }

    /// Runs `body` with two devices that have a package with an index and a payload, and with its
    /// path on each.
    private func withBox(_ body: (Fleet, _ here: String, _ there: String) throws -> Void) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir box.weakpkg; echo 0 > box.weakpkg/index")
            try fleet.shell(0, "mkdir box.weakpkg/data; echo 0 > box.weakpkg/data/payload")
            try fleet.expectEqual()
            let paths = fleet.devices.map { "\($0.path)/box.weakpkg" }
            try body(fleet, paths[0], paths[1])
        }
    }

    /// Runs a script in each of these claims to write.
    ///
    /// - Parameter pause: The microseconds after a claim.
    private func taking(
        turns: Int, at box: String, pause: @escaping @Sendable (Int) -> UInt32 = { _ in 0 },
        _ script: @escaping @Sendable (Int) -> String
    ) -> Thread {
        let writer = Thread {
            for number in 1...turns {
                _ = try? Programs.fsctl(
                    "coordinate", "write", box, "--", "sh", "-c", script(number)
                ).run()
                usleep(pause(number))
            }
        }
        writer.start()
        return writer
    }

    /// Returns the lines of index and payload, read under one claim, and the output of further
    /// commands.
    private func read(_ box: String, _ more: String = "") throws -> [String] {
        try Programs.fsctl(
            "coordinate", "read", box, "--", "sh", "-c",
            "cat \(box)/index \(box)/data/payload\(more)"
        ).succeed().split(separator: "\n").map(String.init)
    }

    @Test("A12.10: a conflict concerns only one file") func conflict() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "mkdir box.weakpkg; echo 0 > box.weakpkg/one; echo 0 > box.weakpkg/two")
            try fleet.expectEqual()
            for index in 0..<2 { try fleet.offline(index) }
            try fleet.shell(0, "echo a > box.weakpkg/one")
            try fleet.shell(1, "echo b > box.weakpkg/one; echo b > box.weakpkg/two")
            for device in fleet.devices { try device.waitForDisk() }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.conflicts(index, "box.weakpkg/one").count == 1)
                #expect(try fleet.conflicts(index, "box.weakpkg/two").isEmpty)
                #expect(fleet.text(index, "box.weakpkg/two") == "b\n")
            }
        }
    }
}
