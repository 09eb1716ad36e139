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

    /// The descriptors of this process, and so of the daemon, for a removed file of the tree.
    private func removed(_ name: String, in stage: ApplierStage) -> Int {
        let links = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return links.count { link in
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\(link)")
            return target == "\(stage.base)/store/tree/\(name) (deleted)"
        }
    }

    @Test("long searches for holes and the end of large files leave the workers alone")
    func longCalls() throws {
        try ApplierStage.with { stage in
            let path = stage.path
            let large = try OpenFile.creating("\(path)/large.tmp")
            try large.truncate(to: 100 << 20)
            let small = try OpenFile.creating("\(path)/small.tmp")
            try small.truncate(to: 1 << 20)
            let parking = stage.session.driver.parking
            let mayGoOn = DispatchSemaphore(value: 0)
            for _ in 0..<16 { parking.runDetached(on: .disk) { mayGoOn.wait() } }
            defer { for _ in 0..<16 { mayGoOn.signal() } }
            let answers = DispatchSemaphore(value: 0)
            let descriptor = large.descriptor
            for _ in 0..<8 {
                start {
                    _ = lseek(descriptor, 1, 3)
                    answers.signal()
                }
            }
            #expect(answers.wait(timeout: .now() + 0.5) == .timedOut, "a worker has searched")
            // The workers go on, and what is short does not wait.
            #expect(try small.seek(0, 4) == 0)
            try call(mkdir("\(path)/made", 0o755))
            for _ in 0..<16 { mayGoOn.signal() }
            for _ in 0..<8 { #expect(answers.wait(timeout: .now() + 60) == .success) }

            for _ in 0..<16 { parking.runDetached(on: .disk) { mayGoOn.wait() } }
            let before = stage.session.nodeCount
            try call(unlink("\(path)/large.tmp"))
            large.close()
            try wait(for: "the kernel to forget the file") {
                stage.session.nodeCount < before ? true : nil
            }
            #expect(removed("large.tmp", in: stage) == 1, "a worker has freed its blocks")
            try call(mkdir("\(path)/made/too", 0o755))
            for _ in 0..<16 { mayGoOn.signal() }
            try wait(for: "the blocks to be freed") {
                removed("large.tmp", in: stage) == 0 ? true : nil
            }
        }
    }
}
