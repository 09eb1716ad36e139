import CLinux
import Foundation
import Testing

/// `concord mount` and `unmount` refuse impossible calls with one sentence and an exit code, and
/// make nothing.
@Suite struct RefusalTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        try scratch.directory("mount")
    }

    private func refuse(_ arguments: [String], _ status: Int32, _ words: String) throws {
        let before = scratch.tree
        let home = ["HOME": scratch("home"), "XDG_DATA_HOME": ""]
        for foreground in [[], ["--foreground"]] {
            let mount = arguments[0] == "mount" ? foreground : []
            let outcome = try Outcome(
                "concord", [arguments[0]] + mount + arguments.dropFirst(), in: scratch.path,
                environment: home)
            #expect(outcome.status == status, "\(outcome.errors)")
            #expect(outcome.errors.contains(words), "\(outcome.errors)")
            #expect(outcome.errors.hasPrefix("concord: ") && outcome.output.isEmpty)
            #expect(outcome.errors.count { $0 == "\n" } == 1)
        }
        #expect(scratch.tree == before)
    }

    @Test func aMountPointThatIsMissing() throws {
        try refuse(["mount", "nowhere"], 3, "nowhere does not exist; make it with mkdir")
    }

    @Test func aMountPointThatIsAFile() throws {
        try scratch.file("plain")
        try refuse(["mount", "plain"], 5, "plain is not a directory")
        try refuse(["mount", "plain/below"], 5, "plain/below is not a directory")
    }

    @Test func aMountPointThatIsNotEmpty() throws {
        try scratch.file("mount/mine.txt")
        try refuse(["mount", "mount"], 4, "is not empty (mine.txt, …)")
    }

    @Test func aMountPointThatIsTaken() throws {
        try refuse(["mount", "/proc"], 4, "something is mounted on /proc already (proc")
    }

    @Test func aStoreThatIsAFile() throws {
        try scratch.file("plain")
        try refuse(["mount", "--store", "plain", "mount"], 5, "plain is not a directory")
    }

    @Test func aStoreThatIsSomethingElse() throws {
        try scratch.directory("photos/2026")
        try refuse(["mount", "--store", "photos", "mount"], 5, "has other files in it")
    }

    @Test func aStoreNowhere() throws {
        try refuse(["mount", "--store", "a/b", "mount"], 3, "a, in which the store")
    }

    @Test func storeAndMountPointInEachOther() throws {
        try refuse(["mount", "--store", "mount/store", "mount"], 5, "which would hide it")
        try refuse(["mount", "--store", "mount", "mount"], 5, "which would hide it")
        try scratch.directory("store/tree/inner")
        try refuse(["mount", "--store", "store", "store/tree/inner"], 5, "is inside the store")
        try FileManager.default.createSymbolicLink(
            atPath: scratch("link"), withDestinationPath: "mount")
        try refuse(["mount", "--store", "link/store", "mount"], 5, "which would hide it")
    }

    @Test func anOptionThatIsNone() throws {
        try refuse(["mount", "-o", "ro,frobnicate", "mount"], 5, "no mount option \"frobnicate\"")
    }

    @Test func unmountingWhatIsNotMounted() throws {
        try refuse(["unmount", "mount"], 3, "nothing is mounted on")
        try refuse(["unmount", "gone/deep"], 3, "cannot examine")
        try refuse(["unmount", "/proc"], 5, "is not a Concord volume (proc); use umount")
    }

    @Test func aCommandLineWithoutSense() throws {
        #expect(try Outcome("concord", ["mount"]).status == 2)
        #expect(try Outcome("concord", ["mount", "--colour", "mount"]).status == 2)
        #expect(try Outcome("fsctl", ["name", "file", "1"]).status == 2)
        #expect(try Outcome("fsctl", ["wait", "--durable", "moon", "x"]).status == 2)
        let version = try Outcome("concord", ["--version"])
        #expect(version.status == 0 && version.output.hasPrefix("concord "))
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func completionsAreThere(shell: String) throws {
        for program in ["concord", "fsctl"] {
            let outcome = try Outcome(program, ["--generate-completion-script", shell])
            #expect(outcome.status == 0 && outcome.output.contains(program))
        }
    }

    @Test func fsctlOutsideOfAVolume() throws {
        try scratch.file("plain")
        for arguments in [["status"], ["versions", "plain"], ["show", "plain", "-1"]] {
            let outcome = try Outcome("fsctl", arguments, in: scratch.path)
            #expect(outcome.status == 3)
            #expect(outcome.errors.contains("is not on a Concord volume"), "\(outcome.errors)")
        }
        let missing = try Outcome("fsctl", ["versions", "no/such"], in: scratch.path)
        #expect(missing.status == 3, "\(missing.errors)")
        #expect(missing.errors.contains("no/such and its directory do not exist"))
    }
}
