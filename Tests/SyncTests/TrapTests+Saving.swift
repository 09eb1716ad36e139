import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Saves while earlier ones are being sent.
extension TrapTests {
    @Test("21: endless saves are sent in time and leave no garbage")
    func continual() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo first > typed")
            try fleet.expectEqual()
            let path = fleet.devices[0].path
            // The upload is slower than the saves.
            try Programs.fsctl("limit", "--up", "200", "--at", path).succeed()
            var saved = 0
            func save() throws {
                saved += 1
                let text = "\(saved)\n" + String(repeating: "\(saved % 10)", count: 150_000)
                try fleet.put(0, "typed.new", text)
                guard rename("\(path)/typed.new", "\(path)/typed") == 0 else {
                    throw SupportError("save \(saved): \(String(cString: strerror(errno)))")
                }
            }
            func arrived() -> Int? {
                fleet.text(1, "typed").flatMap { Int($0.prefix { $0.isNumber }) }
            }
            // Two of the saves that are made during uploads must be readable on the other device.
            for _ in 0..<2 {
                let before = arrived() ?? 0
                try wait(seconds: 60, for: "a save to arrive while others follow") {
                    try save()
                    usleep(50_000)
                    return arrived() ?? 0 > before ? true : nil
                }
            }
            for _ in 0..<100 { try save() }
            try Programs.fsctl("limit", "--up", "0", "--at", path).succeed()
            try wait(seconds: 60, for: "the last save") { arrived() == saved ? true : nil }
            try fleet.expectSound()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["typed"])
                #expect(try fleet.conflicts(index, "typed").isEmpty)
            }
            let mine = try History.of("\(path)/typed")
            let theirs = try History.of("\(fleet.devices[1].path)/typed")
            #expect(mine.id == theirs.id && mine.versions.last?.id == theirs.versions.last?.id)
        }
    }

    @Test("22: a large document is saved again while its last save is being recorded")
    func savedAgain() throws {
        try Fleet.with(2) { fleet in
            let sums = try sums(
                fleet, 0,
                """
                import os
                with open("large", "wb") as file:
                    for i in range(60): file.write(os.urandom(1 << 20))
                closed()
                with open("large", "r+b") as file: file.write(b"second")
                closed()
                with open("large", "r+b") as file:
                    file.seek(30 << 20)
                    file.write(b"third")
                closed()
                """, of: "large")
            #expect(sums.count == 3)
            try fleet.expectSound()
            let path = fleet.devices[0].path
            #expect(try versionSums("\(path)/large") == sums)
            #expect(try fleet.conflicts(1, "large").isEmpty)
            #expect(try versionSums("\(fleet.devices[1].path)/large").last == sums.last)
        }
    }

    @Test("23: a preallocated file is filled in pieces while it is sent")
    func pieces() throws {
        try Fleet.with(2) { fleet in
            let device = fleet.devices[0]
            try Programs.fsctl("limit", "--up", "2000", "--at", device.path).succeed()
            let sums = try sums(
                fleet, 0,
                """
                import os, subprocess
                def fallocate(*words):
                    subprocess.run(["fallocate", *words, "torrent"], check=True)
                    closed()
                fallocate("-l", "64M")
                # The kernel refuses these for file systems in user space, and changes nothing.
                for mode in "-c", "-i":
                    before = open("torrent", "rb").read()
                    refused = subprocess.run(
                        ["fallocate", mode, "-o", "0", "-l", "1M", "torrent"],
                        capture_output=True, text=True)
                    assert refused.returncode and "not supported" in refused.stderr, refused
                    assert open("torrent", "rb").read() == before
                for round in range(5):
                    with open("torrent", "r+b") as file:
                        for piece in range(4):
                            file.seek(((round * 4 + piece) * 7 % 20) * 3000000)
                            file.write(os.urandom(200000))
                    closed()
                    if round == 2: fallocate("-p", "-o", "1000000", "-l", "5000000")
                    if round == 3: fallocate("-z", "-o", "9000000", "-l", "5000000")
                """, of: "torrent")
            try Programs.fsctl("limit", "--up", "0", "--at", device.path).succeed()
            #expect(sums.count == 8)
            try fleet.expectSound()
            let theirs = "\(fleet.devices[1].path)/torrent"
            #expect(try versionSums("\(device.path)/torrent").allSatisfy(sums.contains))
            // The versions are one chain.
            let versions = try fleet.history(0, "torrent").versions
            #expect(versions.map(\.parents) == [[]] + versions.dropLast().map { [$0.id] })
            #expect(try versionSums(theirs).last == sums.last)
            #expect(try fleet.conflicts(1, "torrent").isEmpty)
            // Parts that were never written are not filled with older contents.
            try Programs.fsctl("evict", theirs).succeed()
            #expect(try sum(theirs) == sums.last)
            let file = try FileStatus(of: "\(fleet.devices[1].tree)/torrent")
            #expect(file.allocated < file.size / 2)
        }
    }

    @Test("25: after a save nothing changes that a program can query")
    func unchanged() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 0 > replaced; echo 0 > inplace")
            try fleet.expectEqual()
            let path = fleet.devices[0].path
            try Programs.fsctl("limit", "--up", "400", "--at", path).succeed()
            for round in 1...3 {
                let text = String(repeating: "\(round)", count: 100_000)
                try fleet.put(0, "replaced.new", text)
                try fleet.put(0, "inplace", text)
                try fleet.shell(0, "mv replaced.new replaced")
                let held = ["replaced", "inplace"].map { open("\(path)/\($0)", O_RDONLY) }
                defer { for file in held { close(file) } }
                let before = try look(path)
                // The save is recorded, sent, applied on the other device, and confirmed.
                try fleet.settle()
                #expect(fleet.text(1, "replaced") == text && fleet.text(1, "inplace") == text)
                #expect(try look(path) == before, "round \(round)")
            }
            try Programs.fsctl("limit", "--up", "0", "--at", path).succeed()
            try fleet.expectSound()
        }
    }

    /// Returns the inode, mode, links, owner, size and all times except the access time.
    private func look(_ directory: String) throws -> String {
        try Command(
            "stat", "--format", "%n %i %f %h %u %g %s %y %z", "\(directory)/replaced",
            "\(directory)/inplace"
        ).succeed()
    }

    @Test("26: a file is written while it is sent") func whileSent() throws {
        try Fleet.with(2) { fleet in
            let path = fleet.devices[0].path
            try Programs.fsctl("limit", "--up", "3000", "--at", path).succeed()
            let sums = try sums(
                fleet, 0,
                """
                import mmap, os
                with open("busy", "wb") as file: file.write(os.urandom(8000000))
                closed()
                for round in range(4):
                    with open("busy", "ab") as file: file.write(os.urandom(100000))
                    closed()
                    with open("busy", "r+b") as file:
                        file.seek(4000000)
                        file.write(os.urandom(300000))
                    closed()
                    with open("busy", "r+b") as file, mmap.mmap(file.fileno(), 0) as all:
                        all[2000000:2000010] = b"%010d" % round
                        all.flush()
                    closed()
                    with open("busy.new", "wb") as file: file.write(os.urandom(6000000))
                    os.rename("busy.new", "busy")
                    closed()
                """, of: "busy")
            try Programs.fsctl("limit", "--up", "0", "--at", path).succeed()
            try fleet.expectSound()
            for index in 0..<2 {
                let kept = try versionSums("\(fleet.devices[index].path)/busy")
                #expect(kept.allSatisfy(sums.contains), "contents that were never closed")
                #expect(kept.last == sums.last)
                #expect(try fleet.conflicts(index, "busy").isEmpty)
            }
        }
    }

    // MARK: Checksums

    private func sum(_ path: String) throws -> String {
        String(try Command("sha256sum", path).succeed().prefix(64))
    }

    /// Runs a Python program that calls `closed()` after each save, and returns the checksums of
    /// the contents at these moments.
    private func sums(_ fleet: Fleet, _ index: Int, _ program: String, of name: String) throws
        -> [String]
    {
        let script = """
            import hashlib
            def closed():
                print(hashlib.sha256(open("\(name)", "rb").read()).hexdigest(), flush=True)
            \(program)
            """
        var command = Command("python3", "-c", script)
        command.directory = fleet.devices[index].path
        command.timeoutSeconds = 120
        return try command.succeed().split(separator: "\n").map(String.init)
    }

    /// Returns the checksums of a document's versions, oldest first.
    private func versionSums(_ path: String) throws -> [String] {
        let document = URL(filePath: path)
        let hidden = document.deletingLastPathComponent()
            .appending(path: ".versions/\(document.lastPathComponent)")
        return try History.of(path).versions.map {
            try sum(hidden.appending(path: $0.fileName).path)
        }
    }
}
