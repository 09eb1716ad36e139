import Dispatch
import Glibc
import Journal
import Model
import Testing

@testable import Volume

/// A volume closes quickly, whatever is waiting; contents that are not recorded yet are safe.
@Suite struct StoppingTests {
    private let program = Program(process: 10, name: "vim")

    private func settings(_ change: (inout Settings) -> Void) -> Settings {
        var settings = ProgramTree.fast
        // Nothing is recorded before the volume is closed.
        settings.settleSeconds = 600
        settings.patienceSeconds = 600
        change(&settings)
        return settings
    }

    @Test("without time at the end, every earlier save is a version after the next start")
    func noTime() throws {
        let tree = try ProgramTree(settings: settings { $0.closingSeconds = 0 })
        // The first scan would record what it finds, whatever the settings say.
        #expect(tree.quiet())
        for number in 0..<20 {
            try tree.save("f\(number)", "1 \(number)", by: program)
            try tree.replace("f\(number)", Array("2 \(number)".utf8), by: program)
            try tree.writeInPlace("f\(number)", Array("3".utf8), at: 0, by: program)
        }
        try tree.remount(settings: ProgramTree.fast) {
            let count = try versionCount(tree)
            #expect(count == 0, "there was time after all")
        }
        #expect(tree.quiet())
        for number in 0..<20 {
            #expect(
                try tree.texts("f\(number)") == ["1 \(number)", "2 \(number)", "3 \(number)"])
        }
        try tree.checkInvariants()
        tree.stop()
    }

    @Test("what is read when the time ends is not recorded before the saves that came before it")
    func timeEndsWhileReading() throws {
        let tree = try ProgramTree()
        try tree.save("f", "1 f", by: program)
        #expect(tree.quiet())
        try tree.remount(settings: settings { $0.closingSeconds = 0 })
        #expect(tree.quiet())
        try tree.replace("f", Array("2 f".utf8), by: program)
        let wasCalled = DispatchSemaphore(value: 0)
        tree.volume.recorder.signal.change {
            tree.volume.recorder.tasks.append { [program] recorder in
                recorder.processor.processEvents(now: true)
                #expect(throws: Never.self) {
                    try tree.writeInPlace("f", Array("3".utf8), at: 0, by: program)
                }
                let keys = Array(recorder.state.pending.all.keys)
                #expect(keys.count == 1)
                recorder.versionRecorder.record(keys) {
                    tree.volume.prepareToStop()
                    wasCalled.signal()
                    return recorder.processor.processNews()
                }
            }
        }
        wasCalled.wait()
        try tree.remount(settings: ProgramTree.fast) {
            let count = try versionCount(tree)
            #expect(count == 1)
        }
        #expect(tree.quiet())
        #expect(try tree.texts("f") == ["1 f", "2 f", "3 f"])
        try tree.checkInvariants()
        tree.stop()
    }

    @Test("a large document is not read at the end, but is a version after the next start")
    func large() throws {
        let tree = try ProgramTree(settings: settings { $0.largeBytes = 1_000 })
        #expect(tree.quiet())
        try tree.save("large", String(repeating: "x", count: 1_001), by: program)
        try tree.save("small", "x", by: program)
        try tree.remount(settings: ProgramTree.fast) {
            let count = try versionCount(tree)
            #expect(count == 1)
        }
        #expect(tree.quiet())
        #expect(try tree.texts("large").count == 1)
        #expect(try tree.texts("small") == ["x"])
        tree.stop()
    }

    @Test("a caller that waits for the recorder is told at once that the volume is closing")
    func asked() throws {
        let tree = try ProgramTree()
        try tree.save("f", "1", by: program)
        let (isBusy, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        tree.volume.recorder.signal.change {
            tree.volume.recorder.tasks.append { _ in
                isBusy.signal()
                mayGoOn.wait()
            }
        }
        isBusy.wait()
        tree.volume.prepareToStop()
        #expect {
            try tree.volume.states.status(at: [Name("f")])
        } throws: { ($0 as? VolumeError)?.code == .busy }
        #expect {
            try tree.volume.safety.wait(for: .disk, at: [Name("f")], timeoutSeconds: 600)
        } throws: { ($0 as? VolumeError)?.code == .busy }
        mayGoOn.signal()
        tree.stop()
    }

    @Test("a save before the end of the first scan is recorded when the volume is closed")
    func beforeTheFirstLook() throws {
        let tree = try ProgramTree()
        tree.onOpening = { [program] volume in
            #expect(throws: Never.self) {
                try tree.save("f", "1", by: program)
                try tree.replace("f", Array("2".utf8), by: program)
            }
            // The recorder is told to stop as soon as it starts.
            volume.recorder.stop()
        }
        try tree.remount()
        tree.stop()
        #expect(access("\(tree.store)/clean", F_OK) == 0)
        #expect(try versionCount(tree) == 2)
    }

    @Test("a store whose last changes are only in the log is not marked as properly closed")
    func manyChanges() throws {
        let tree = try ProgramTree(settings: settings { _ in })
        #expect(tree.quiet())
        for number in 0..<1_000 { try tree.save("f\(number)", "1", by: program) }
        #expect(tree.volume.events.waiting.count > 1_000)
        tree.stop()
        #expect(access("\(tree.store)/clean", F_OK) != 0)
        try tree.reopen(ProgramTree.fast)
        #expect(tree.quiet())
        #expect(try tree.texts("f999") == ["1"])
        tree.stop()
    }

    private func versionCount(_ tree: ProgramTree) throws -> Int {
        let journal = try Journal.open(path: tree.store + "/journal.sqlite")
        defer { try? journal.close() }
        return try journal.read { try $0.versionCount() }
    }
}
