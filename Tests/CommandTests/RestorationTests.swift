import CLinux
import Control
import Foundation
import Model
import Testing

/// `fsctl restore` when another user's file is in the way, and for versions that are impossible.
@Suite(.enabled(if: FakeMount.isPossible)) struct RestorationTests {
    private let mount: FakeMount

    init() throws {
        mount = try FakeMount()
        let id = "000102030405060708090a0b0c0d0e0f"
        try mount.add(id, at: "docs/a.txt", number: 1, mode: 0o600, "secret\n")
        try mount.add(id, at: "docs/a.txt", number: 2, kind: .current, "now\n")
        try mount.scratch.file("mount/docs/a.txt", "now\n")
    }

    @Test func nothingIsWrittenIntoAFileOfSomebodyElse() throws {
        let part = try mount.scratch.file("mount/docs/.a.txt.concord-restore.part", "theirs")
        chown(part, 1234, 1234)
        let theirs = cl_openat(AT_FDCWD, part, O_RDWR, 0)
        defer { _ = cl_close(theirs) }
        let outcome = try mount.fsctl("restore", "a.txt", "1")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try mount.text("docs/a.txt") == "secret\n" && mount.names("docs") == ["a.txt"])
        var seen = [UInt8](repeating: 0, count: 64)
        let count = cl_pread(theirs, &seen, seen.count, 0)
        #expect(String(decoding: seen.prefix(max(0, count)), as: UTF8.self) == "theirs")
    }

    @Test(arguments: [UInt64(1) << 63, .max]) func aSizeThatNoFileHasIsDamage(size: UInt64) throws {
        mount.service.state.withLock { state in
            for key in state.contents.keys { state.contents[key]?[0].0.size = size }
        }
        let outcome = try mount.fsctl("show", "a.txt", "1")
        #expect(outcome.status == 7 && outcome.errors.contains("\(size)"), "\(outcome.errors)")
    }
}
