import CLinux
import Control
import Foundation
import Model
import Support
import Synchronization
import Testing

/// The real program with a daemon that the test plays, on a file system of the test's own.
@Suite(.enabled(if: FakeMount.isPossible)) struct FsctlTests {
    private let mount: FakeMount
    private let id = "000102030405060708090a0b0c0d0e0f"

    init() throws {
        mount = try FakeMount()
        try mount.add(id, at: "docs/a.txt", number: 1, mode: 0o640, "one\n")
        try mount.add(id, at: "docs/a.txt", number: 2, label: "draft", "two\n")
        try mount.add(id, at: "docs/a.txt", number: 3, kind: .current, "three\n")
        try mount.scratch.file("mount/docs/a.txt", "three\n")
    }

    @Test func versionsForPeopleAndForPrograms() throws {
        let table = try mount.fsctl("versions", "a.txt")
        #expect(table.status == 0 && table.errors.isEmpty)
        let lines = table.output.split(separator: "\n")
        #expect(lines.count == 4 && lines[0].hasPrefix("VERSION  ID  "))
        #expect(lines[2].contains("ann, vim") && lines[2].hasSuffix("draft"))
        let json = try mount.fsctl("versions", "--json", "../docs/a.txt")
        let report = try value(HistoryReport.self, from: Array(json.output.utf8))
        #expect(report.versions.map(\.number) == [1, 2, 3] && report.id == id)
    }

    @Test(arguments: [("1", "one\n"), ("-1", "two\n"), ("draft", "two\n"), ("3", "three\n")])
    func showsTheVersionMeant(version: String, text: String) throws {
        let outcome = try mount.fsctl("show", "a.txt", version)
        #expect(outcome.output == text && outcome.status == 0)
    }

    @Test func aVersionThatIsNot() throws {
        let outcome = try mount.fsctl("show", "a.txt", "9")
        #expect(outcome.status == 3 && outcome.output.isEmpty)
        #expect(outcome.errors == "fsctl: a.txt has no version 9; it has 3 versions, 1 to 3\n")
    }

    @Test func diffEndsAsDiffDoes() throws {
        let now = try mount.fsctl("diff", "a.txt")
        #expect(now.status == 1 && now.output.contains("-two\n+three\n"))
        #expect(
            now.output.contains("--- a.txt (version 2, ") && now.output.contains("+++ a.txt (now)"))
        let two = try mount.fsctl("diff", "a.txt", "1", "draft")
        #expect(two.status == 1 && two.output.contains("-one\n+two\n"))
        let same = try mount.fsctl("diff", "a.txt", "3")
        #expect(same.status == 0 && same.output.isEmpty)
        let json = try mount.fsctl("diff", "--json", "a.txt", "1")
        #expect(json.output == #"{"differs":true,"from":1}"# + "\n" && json.status == 1)
    }

    @Test func restoreReplacesAsAnEditorWould() throws {
        let path = mount.root + "/docs/a.txt"
        chown(path, 1234, 1234)
        let file = cl_open_path(path)
        _ = cl_setxattr_fd(file, "user.colour", "blue", 4, 0)
        // A part file, as an interrupted restore would leave it.
        try mount.scratch.file("mount/docs/.a.txt.concord-restore.part", "half of something long")
        let outcome = try mount.fsctl("restore", "a.txt", "1")
        #expect(outcome.status == 0 && outcome.errors.isEmpty)
        #expect(try mount.text("docs/a.txt") == "one\n")
        #expect(mount.names("docs") == ["a.txt"])
        var (old, new) = (stat(), stat())
        #expect(cl_fstat(file, &old) == 0 && stat(path, &new) == 0)
        #expect(old.st_nlink == 0 && new.st_ino != old.st_ino)
        #expect(new.st_mode & 0o7777 == 0o640 && new.st_uid == 1234)
        let fresh = cl_open_path(path)
        var value = [UInt8](repeating: 0, count: 4)
        #expect(cl_getxattr_fd(fresh, "user.colour", &value, 4) == 4 && value == Array("blue".utf8))
        _ = cl_close(file)
        _ = cl_close(fresh)
    }

    @Test func restoreBesideNeverOverwrites() throws {
        #expect(try mount.fsctl("restore", "a.txt", "-1", "--as", "b.txt").status == 0)
        #expect(try mount.text("docs/b.txt") == "two\n")
        let again = try mount.fsctl("restore", "a.txt", "1", "--as", "b.txt")
        #expect(again.status == 4 && again.errors.contains("b.txt is there already"))
        #expect(
            try mount.text("docs/b.txt") == "two\n" && mount.names("docs") == ["a.txt", "b.txt"])
    }

    @Test func aVersionThatIsCutShortChangesNothing() throws {
        try mount.scratch.file(mount.hidden("docs/a.txt", 1), "o")
        let outcome = try mount.fsctl("restore", "a.txt", "1")
        #expect(outcome.status == 7 && outcome.errors.contains("run fsctl doctor"))
        #expect(try mount.text("docs/a.txt") == "three\n" && mount.names("docs") == ["a.txt"])
    }

    @Test func twoRestoresDoNotMix() throws {
        let part = try mount.scratch.file("mount/docs/.a.txt.concord-restore.part")
        let other = cl_openat(AT_FDCWD, part, O_RDWR, 0)
        defer { _ = cl_close(other) }
        #expect(cl_lock(other) == 0)
        let outcome = try mount.fsctl("restore", "a.txt", "1")
        #expect(outcome.status == 4 && outcome.errors.contains("another restore"))
        #expect(try mount.text("docs/a.txt") == "three\n")
    }

    @Test func aPackageChangesAsAWhole() throws {
        let entries: [(String, Manifest.Kind, UInt16, String)] = [
            ("Data", .directory, 0o555, ""), ("Data/x", .file, 0o444, "old x"),
            ("index", .file, 0o600, "old index"), ("link", .symlink, 0o777, "Data/x"),
        ]
        mount.service.add("p", at: "docs/D.pkg", number: 1, entries: entries)
        let hidden = try mount.hidden("docs/D.pkg", 1)
        try mount.scratch.directory("\(hidden)/Data")
        try mount.scratch.file("\(hidden)/Data/x", "old x")
        try mount.scratch.file("\(hidden)/index", "old index")
        try mount.scratch.directory("mount/docs/D.pkg/Data")
        try mount.scratch.file("mount/docs/D.pkg/new", "new")
        let outcome = try mount.fsctl("restore", "D.pkg", "1")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(mount.names("docs") == ["D.pkg", "a.txt"])
        #expect(mount.names("docs/D.pkg") == ["Data", "index", "link"])
        #expect(try mount.text("docs/D.pkg/link") == "old x")
        var status = stat()
        #expect(
            stat(mount.root + "/docs/D.pkg/Data", &status) == 0 && status.st_mode & 0o777 == 0o555)
        let again = try mount.fsctl("show", "D.pkg", "1")
        #expect(again.status == 5 && again.errors.contains("is a package"))
    }

    @Test func undeleteByNameAndById() throws {
        let gone = "ff0102030405060708090a0b0c0d0e0f"
        mount.service.add(gone, at: nil, number: 1, entries: [("", .file, 0o600, "first")])
        mount.service.add(
            gone, at: nil, number: 2, entries: [("", .file, 0o600, "more than a piece")])
        mount.service.state.withLock {
            $0.deleted = [
                .init(id: id, name: RawText("gone.txt"), deleted: 1, versions: 1, size: 1),
                .init(id: gone, name: RawText("gone.txt"), deleted: 2, versions: 2, size: 17),
            ]
        }
        let list = try mount.fsctl("undelete")
        #expect(list.output.contains(gone) && list.output.contains("gone.txt"))
        let outcome = try mount.fsctl("undelete", "docs/gone.txt", in: "")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try mount.text("docs/gone.txt") == "more than a piece")
        let again = try mount.fsctl("undelete", "gone.txt")
        #expect(again.status == 4 && again.errors.contains("--as OTHER"))
        #expect(try mount.fsctl("undelete", gone, "--as", "back.txt").status == 0)
        #expect(try mount.text("docs/back.txt") == "more than a piece")
        #expect(try mount.fsctl("undelete", "never.txt").status == 3)
    }

    @Test func theOtherVerbsReachTheDaemon() throws {
        #expect(try mount.fsctl("name", "a.txt", "-1", "final").status == 0)
        #expect(try mount.fsctl("name", "--remove", "a.txt", "draft").status == 0)
        #expect(try mount.fsctl("forget", "a.txt", "1").status == 0)
        let asked = mount.service.state.withLock { $0.asked }.filter { $0.verb != "versions" }
        #expect(asked.map(\.verb) == ["name", "name", "forget"])
        #expect(asked.map(\.number) == [2, 2, 1] && asked.map(\.label) == ["final", nil, nil])
        #expect(asked.allSatisfy { $0.path?.text == "docs/a.txt" })
        #expect(try mount.fsctl("name", "a.txt", "1", "12").status == 5)
    }

    @Test func purgingSaysWhatStays() throws {
        let outcome = try mount.fsctl("purge", "--before", "30d", "--free", "2G", "a.txt")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(
            outcome.output == """
                3 versions and 1 unrecorded content removed, 2.5 MB freed
                  stays: 2, in conflict (`fsctl resolve`)

                """)
        let asked = try #require(mount.service.state.withLock { $0.asked }.last)
        #expect(asked.verb == "purge" && asked.bytes == 2_000_000_000 && asked.explain == nil)
        #expect(asked.path?.text == "docs/a.txt" && asked.time != nil)
        // Purging a directory needs a confirmation, and there is no terminal to ask on.
        let refused = try mount.fsctl("purge", ".")
        #expect(refused.status == 5 && refused.errors.contains("--yes"))
        #expect(try mount.fsctl("purge", "--dry-run", ".").output.contains("would go, about"))
        #expect(mount.service.state.withLock { $0.asked }.last?.explain == true)
        #expect(try mount.fsctl("purge", "--yes", ".").status == 0)
        #expect(try mount.fsctl("purge", "--free", "much", "a.txt").errors.contains("not a size"))
        #expect(try mount.fsctl("purge", "--before", "ever", "a.txt").errors.contains("not a time"))
    }

    @Test func statusAndDoctor() throws {
        let volume = try mount.fsctl("status")
        #expect(volume.status == 0 && volume.output.contains("Passthrough  off"))
        #expect(try mount.fsctl("status", "a.txt").output.contains("the current one is 2"))
        let doctor = try mount.fsctl("doctor")
        #expect(doctor.status == 1 && doctor.output.contains("damage: a: is bad"))
        #expect(doctor.output.hasSuffix(". is not sound: 1 damage.\n"))
        let json = try mount.fsctl("doctor", "--json", "--no-repair")
        #expect(json.status == 1 && json.output.contains(#""sound":false"#))
        #expect(mount.service.state.withLock { $0.asked.last?.repair } == false)
    }

    @Test func namesThatAreNotText() throws {
        let name = Name(bytes: [0x62, 0xFF])
        mount.service.state.withLock {
            $0.histories["docs/b\u{FFFD}"] = HistoryReport(
                id: "x", package: false, state: "current", versions: [])
        }
        let script =
            "touch \"$(printf 'b\\377')\"; \"$FSCTL\" versions --json \"$(printf 'b\\377')\""
        let outcome = try Outcome(
            "/bin/sh", ["-c", script], in: mount.root + "/docs",
            environment: ["FSCTL": Programs.fsctl])
        #expect(outcome.status == 0, "\(outcome.errors)")
        let path = mount.service.state.withLock { $0.asked.last?.path?.path }
        #expect(path == [Name("docs"), name])
    }

    @Test func aDaemonThatHasEnded() throws {
        mount.daemon.server.stop()
        let outcome = try mount.fsctl("versions", "a.txt")
        #expect(outcome.status == 3 && outcome.errors.contains("mount the volume again"))
    }
}
