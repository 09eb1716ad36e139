import CLinux
import Foundation
import Glibc
import Support
import Synchronization
import Testing

@testable import Mount
@testable import Volume

/// Requests that wait for the recorder delay no program that opens, saves or makes a directory.
@Suite("Requests while the recorder is busy", .serialized, .enabled(if: geteuid() == 0))
struct RequestLaneTests {
    /// Runs `body` on a thread of its own.
    private func start(_ body: @escaping @Sendable () -> Void) {
        Thread.detachNewThread(body)
    }

    @Test("questions wait, and saves do not") func questions() throws {
        try ApplierStage.with { stage in
            try stage.write("1", to: "a")
            let (path, volume) = (stage.path, stage.volume)
            let (isHeld, isOver) = (
                DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
            )
            start {
                _ = try? volume.recorder.carryOut { _ in
                    isHeld.signal()
                    isOver.wait()
                }
            }
            #expect(isHeld.wait(timeout: .now() + 60) == .success)
            // The recorder has something to do before these can be answered.
            try "2".write(toFile: path + "/a", atomically: false, encoding: .utf8)
            let asked = Mutex(0)
            let answered = Mutex(0)
            let answers = DispatchSemaphore(value: 0)
            for number in 0..<32 {
                start {
                    asked.withLock { $0 += 1 }
                    if number.isMultiple(of: 2) {
                        var value = [UInt8](repeating: 0, count: 100)
                        _ = cl_path_getxattr(path + "/a", "user.concord.state", &value, value.count)
                    } else {
                        _ = try? FileManager.default.contentsOfDirectory(
                            atPath: path + "/.versions/a")
                    }
                    answered.withLock { $0 += 1 }
                    answers.signal()
                }
            }
            try wait(for: "the questions") { asked.withLock { $0 } == 32 ? true : nil }
            let saves = DispatchSemaphore(value: 0)
            let faults = Mutex<[String]>([])
            start {
                for number in 0..<20 {
                    do {
                        let file = try OpenFile(
                            path + "/b\(number % 3)", O_WRONLY | O_CREAT | O_TRUNC)
                        try file.write("\(number)")
                        file.close()
                        try call(mkdir(path + "/d\(number)", 0o755))
                        let again = try OpenFile(path + "/a", O_RDWR)
                        try again.write("3")
                        again.close()
                    } catch { faults.withLock { $0.append("\(error)") } }
                }
                saves.signal()
            }
            #expect(saves.wait(timeout: .now() + 60) == .success, "the saves wait, too")
            #expect(answered.withLock { $0 } <= 16, "they do not wait")
            #expect(faults.withLock { $0 } == [])
            isOver.signal()
            for _ in 0..<32 {
                #expect(answers.wait(timeout: .now() + 60) == .success)
            }
            try stage.quiet()
        }
    }
}
