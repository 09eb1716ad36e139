import CLinux
import Foundation
import Glibc
import Journal
import Logging
import Model
import Support
import Synchronization
import SystemCalls
import Testing
import Volume

@testable import Mount

/// Programs save while changes from the hub arrive, and daemons are killed.
@Suite("The applier's races", .serialized)
struct ApplierRaceTests {
    enum Save: CaseIterable { case inPlace, replacing, removing }

    private func save(_ text: String, _ path: String, _ how: Save) {
        switch how {
        case .inPlace:
            let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
            guard file >= 0 else { return }
            _ = text.withCString { write(file, $0, strlen($0)) }
            close(file)
        case .replacing:
            save(text, path + ".draft", .inPlace)
            rename(path + ".draft", path)
        case .removing:
            unlink(path)
            save(text, path, .inPlace)
        }
    }

    private func recorded(_ stage: ApplierStage, _ name: String) throws -> Set<String> {
        let directory = stage.path + "/.versions/" + name
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        return Set(
            try names.map { try String(contentsOfFile: directory + "/" + $0, encoding: .utf8) })
    }

    /// No bytes are lost, whichever change comes first.
    @Test(arguments: Save.allCases) func whatIsSavedMeanwhileLives(how: Save) throws {
        try ApplierStage.with { stage in
            var generator = SeededRandom(seed: 7)
            var texts: Set<String> = ["begin"]
            try stage.write("begin", to: "a")
            var applied = 0
            for round in 0..<40 {
                let item = try #require(try stage.item("a"))
                var status = stat()
                #expect(stat(stage.path + "/a", &status) == 0)
                let remote = "remote \(round)"
                let (name, _) = try stage.file(
                    remote, item: item.id, parents: item.current.map { [$0] } ?? [])
                let mine = "mine \(round)"
                let delay = UInt32.random(in: 0..<1500, using: &generator)
                let isSaved = Mutex(false)
                let path = stage.path + "/a"
                Thread.detachNewThread {
                    usleep(delay)
                    save(mine, path, how)
                    isSaved.withLock { $0 = true }
                }
                usleep(UInt32.random(in: 0..<1500, using: &generator))
                let result = stage.apply(
                    .replace(incoming: name, at: stage.place("a"), expected: FileSnapshot(status)))
                try wait(for: "the save") { isSaved.withLock { $0 } ? true : nil }
                texts.insert(mine)
                if result == .done {
                    texts.insert(remote)
                    applied += 1
                } else {
                    stage.volume.arrivals.discard(name)
                }
                #expect(stage.text("a") == mine || stage.text("a") == remote)
                try stage.quiet()
            }
            #expect(texts.subtracting(try recorded(stage, "a")) == [])
            print("applied \(applied) of 40 beside \(how)")
        }
    }

    // MARK: Killed daemons

    private static let variable = "CONCORD_APPLIER_STAGE"
    private static let scanVariable = "CONCORD_SCANNED_STORE"
    private static let count: UInt64 = 4000

    private static func arrival(_ index: UInt64) -> Arrival {
        ApplierStage.arrival(
            "text \(index)", item: Identifier(high: 7, low: index),
            version: Identifier(high: 8, low: index))
    }

    /// The process that is killed: it runs this test again.
    @Test(.enabled(if: ProcessInfo.processInfo.environment[variable] != nil))
    func aDaemonToKill() throws {
        let base = try #require(ProcessInfo.processInfo.environment[Self.variable])
        let stage = try ApplierStage(at: base)
        for index in 0..<Self.count {
            let arrival = Self.arrival(index)
            let name = try stage.prepare(arrival, ["text \(index)"])
            _ = stage.apply(.make(incoming: name, at: stage.place("f\(index)")))
            if index == 10 {
                try "\(stage.applier.process ?? 0)".write(
                    toFile: base + "/process", atomically: true, encoding: .utf8)
            }
        }
        sleep(60)
    }

    /// The process that kills itself in the transaction in which its first scan creates items for
    /// files that were put into the tree without an event in the log.
    @Test(.enabled(if: ProcessInfo.processInfo.environment[scanVariable] != nil))
    func aScanToKill() throws {
        let base = try #require(ProcessInfo.processInfo.environment[Self.scanVariable])
        let volume = try Volume.open(
            store: base + "/store", settings: Settings(), log: Logger(label: "test"))
        for index in 0..<UInt64(40) {
            let arrival = Self.arrival(index)
            let name = try volume.arrivals.prepare(arrival) { (_, file) throws(VolumeError) in
                let text = "text \(index)"
                _ = text.withCString { write(file, $0, strlen($0)) }
            }
            try #require(
                rename(base + "/store/incoming/" + name, base + "/store/tree/f\(index)") == 0)
        }
        let count = Mutex(0)
        volume.arrivals.onAdoption { _, _, _ in
            let adopted = count.withLock { count in
                count += 1
                return count
            }
            if adopted == 20 { kill(getpid(), SIGKILL) }
        }
        volume.start()
        sleep(60)
    }

    @Test(arguments: [20, 300, 700]) func theDaemonIsKilled(milliseconds: UInt32) throws {
        let home = try TemporaryDirectory("killed")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let child = try ChildProcess(
            "/proc/self/exe",
            [
                "--testing-library", "swift-testing", "--no-parallel", "--filter",
                "ApplierRaceTests/aDaemonToKill",
            ],
            environment: [Self.variable: home.path], input: null, output: null, errors: null)
        defer {
            child.killGroup()
            umount2(home.path + "/mount", Int32(MNT_DETACH))
        }
        let process = try wait(seconds: 60, for: "the batch") {
            try? pid_t(String(contentsOfFile: home.path + "/process", encoding: .utf8))
        }
        usleep(milliseconds * 1000)
        child.send(SIGKILL)
        _ = try child.waitForEnd(seconds: 30)
        try wait(for: "the applier to end with it") { kill(process, 0) == -1 ? true : nil }
        umount2(home.path + "/mount", Int32(MNT_DETACH))
        try checkWhatArrived(home.path)
    }

    /// The transaction that adopts the arrivals is not committed, so the files must still have
    /// their arrival tags.
    @Test func theDaemonIsKilledInAScan() throws {
        let home = try TemporaryDirectory("killed")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let child = try ChildProcess(
            "/proc/self/exe",
            [
                "--testing-library", "swift-testing", "--no-parallel", "--filter",
                "ApplierRaceTests/aScanToKill",
            ],
            environment: [Self.scanVariable: home.path], input: null, output: null, errors: null)
        defer { child.killGroup() }
        _ = try child.waitForEnd(seconds: 60)
        try checkWhatArrived(home.path)
        // The daemon is killed after the transaction and before the removal of a tag, so the tag is
        // still there.
        let file = open(home.path + "/store/tree/f20", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        let attribute = "user.concord.arrival"
        let mark = Identifier(high: 7, low: 20).bytes + Identifier(high: 8, low: 20).bytes
        try #require(cl_setxattr_fd(file, attribute, mark, mark.count, 0) == 0)
        try checkWhatArrived(home.path)
        var bytes = mark
        #expect(cl_getxattr_fd(file, attribute, &bytes, bytes.count) < 0)
    }

    private func checkWhatArrived(_ home: String) throws {
        var log = Logger(label: "test")
        log.logLevel = .error
        let volume = try Volume.open(store: home + "/store", settings: Settings(), log: log)
        volume.arrivals.onArrival { mark, _ in
            mark.item.high == 7 ? ApplierRaceTests.arrival(mark.item.low) : nil
        }
        volume.start()
        defer { volume.stop() }
        try wait(seconds: 30, for: "the recorder") {
            _ = try volume.recorder.perform { _, _ in }
            let status = try VolumeStatus(of: volume)
            return status.waitingToBeCut == 0 && !status.scanning ? true : nil
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: home + "/store/tree")
        #expect(files.count > 10)
        for name in files {
            let index = try #require(UInt64(name.dropFirst()))
            let history = try #require(try volume.history.document(at: [Name(name)]))
            #expect(history.id == Identifier(high: 7, low: index))
            #expect(history.versions.map(\.id) == [Identifier(high: 8, low: index)])
            let text = try String(
                contentsOfFile: home + "/store/tree/" + name, encoding: .utf8)
            #expect(text == "text \(index)")
        }
        let left = try FileManager.default.contentsOfDirectory(
            atPath: home + "/store/incoming")
        #expect(left.isEmpty)
    }
}
