import CLinux
import Control
import Foundation
import Glibc
import Journal
import Model
import Support
import Synchronization
import SystemCalls
import Testing
import Volume

@testable import Mount

/// Changes from the hub as system calls in the mount: watchers are notified, local changes are
/// kept, and nothing is sent back.
@Suite("The applier", .serialized)
struct ApplierTests {
    @Test func watchersAreNotifiedOnce() throws {
        try ApplierStage.with { stage in
            try stage.write("old", to: "a")
            mkdir(stage.path + "/d", 0o755)
            try stage.quiet()
            let a = try #require(try stage.item("a"))
            let watcher = try Watcher([stage.path, stage.path + "/d"])
            let (name, arrival) = try stage.file("new", item: a.id, parents: [a.current!])
            #expect(
                stage.apply(
                    .replace(
                        incoming: name, at: stage.place("a"), expected: try stage.expected("a")))
                    == .done)
            #expect(watcher.events() == ["mount/a to"])
            #expect(stage.text("a") == "new")
            try stage.quiet()
            #expect(try stage.item("a")?.current == arrival.version?.id)

            let now = try #require(try stage.item("a"))
            #expect(
                stage.apply(.move(from: stage.place("a"), inode: now.inode, to: stage.place("d/b")))
                    == .done)
            #expect(watcher.events() == ["mount/a from", "d/b to"])
            try stage.quiet()
            #expect(try stage.item("d/b")?.id == a.id)

            let (other, _) = try stage.file("other")
            #expect(stage.apply(.make(incoming: other, at: stage.place("d/c"))) == .done)
            #expect(watcher.events() == ["d/c to"])
            try stage.quiet()
            let (b, c) = (try stage.expected("d/b").inode, try stage.expected("d/c").inode)
            #expect(
                stage.apply(.swap(stage.place("d/b"), inode: b, with: stage.place("d/c"), other: c))
                    == .done)
            #expect(watcher.events() == ["d/b from", "d/c to", "d/c from", "d/b to"])
            #expect(stage.text("d/c") == "new")
            try stage.quiet()
            #expect(try stage.item("d/c")?.id == a.id)
            #expect(
                stage.apply(
                    .remove(
                        at: stage.place("d/c"), expected: FileSnapshot(try status(stage, "d/c"))))
                    == .done)
            #expect(watcher.events() == ["d/c deleted"])
            try stage.quiet()
            #expect(try stage.item("d/c") == nil)
            // Nothing that the applier did has made a version.
            let versions = try stage.volume.recorder.perform { _, t in
                try t.versions(of: a.key).count
            }
            #expect(versions == 2)
        }
    }

    @Test func directoriesSymlinksAndAttributes() throws {
        try ApplierStage.with { stage in
            let directory = Arrival(item: .random(), kind: .directory, mode: 0o700)
            let link = Arrival(item: .random(), kind: .symlink, target: Array("target".utf8))
            let (name, arrival) = try stage.file("text")
            let results = stage.applier.apply([
                .make(incoming: try stage.prepare(directory), at: stage.place("d")),
                .make(incoming: try stage.prepare(link), at: stage.place("d/l")),
                .make(incoming: name, at: stage.place("d/f")),
            ])
            #expect(results == [.done, .done, .done])
            try stage.quiet()
            #expect(try stage.item("d")?.id == directory.item)
            #expect(try stage.item("d/l")?.id == link.item)
            let file = try #require(try stage.item("d/f"))
            #expect(file.id == arrival.item)
            let change = TreeChange(
                mode: 0o600, set: [.init(name: Array("user.x".utf8), value: [1])],
                removed: [Array("user.none".utf8)])
            #expect(
                stage.apply(.change(at: stage.place("d/f"), inode: file.inode, change)) == .done)
            #expect(
                stage.apply(.change(at: stage.place("d/f"), inode: file.inode + 1, change))
                    == .changed)
            try stage.quiet()
            let now = try #require(try stage.item("d/f"))
            #expect(now.mode == 0o600 && now.attributes != nil)
            #expect(now.current == arrival.version?.id)
            var status = stat()
            #expect(stat(stage.path + "/d/f", &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }

    @Test func unexpectedItemsAreNotTouched() throws {
        try ApplierStage.with { stage in
            for name in ["a", "b", "c"] { try stage.write("old \(name)", to: name) }
            let (a, b, c) = (
                try stage.expected("a"), try stage.expected("b"), try stage.expected("c")
            )
            let id = try #require(try stage.item("a")).id
            let (new, _) = try stage.file("new", item: id)
            // The files were edited in place, replaced or removed since.
            try "mine".write(toFile: stage.path + "/a", atomically: false, encoding: .utf8)
            try "mine".write(toFile: stage.path + "/b", atomically: true, encoding: .utf8)
            unlink(stage.path + "/c")
            let (other, _) = try stage.file("other")
            let results = stage.applier.apply([
                .replace(incoming: new, at: stage.place("a"), expected: a),
                .remove(at: stage.place("a"), expected: a),
                .remove(at: stage.place("b"), expected: b),
                .move(from: stage.place("b"), inode: b.inode, to: stage.place("z")),
                .remove(at: stage.place("c"), expected: c),
                .make(incoming: other, at: stage.place("a")),
                .make(incoming: other, at: stage.place("nowhere/x")),
                .replace(incoming: other, at: stage.place("nothing"), expected: a),
                .move(
                    from: stage.place("b"), inode: try inode(stage, "b"), to: stage.place("a")),
            ])
            #expect(
                results == [
                    .changed, .changed, .changed, .changed, .gone, .taken, .gone, .gone, .taken,
                ])
            #expect(stage.text("a") == "mine" && stage.text("b") == "mine")
            try stage.quiet()
            #expect(try stage.conflicts("a") == 0)
        }
    }

    @Test func togetherIsAllOrNothing() throws {
        try ApplierStage.with { stage in
            #expect(mkdir(stage.path + "/box", 0o755) == 0)
            for name in ["box/a", "box/b"] { try stage.write("old", to: name) }
            let (a, b) = (try stage.expected("box/a"), try stage.expected("box/b"))
            let ids = try ["box/a", "box/b"].map { try #require(try stage.item($0)).id }
            func steps() throws -> [ApplierStep] {
                [
                    .replace(
                        incoming: try stage.file("new", item: ids[0]).0,
                        at: stage.place("box/a"), expected: a),
                    .replace(
                        incoming: try stage.file("new", item: ids[1]).0,
                        at: stage.place("box/b"), expected: b),
                    .make(incoming: try stage.file("new").0, at: stage.place("box/c")),
                ]
            }
            try stage.write("mine", to: "box/b")
            let results = stage.applier.apply(try steps(), together: [Name("box")])
            #expect(results == [.open, .open, .open])
            #expect(stage.text("box/a") == "old" && stage.text("box/b") == "mine")
            #expect(stage.text("box/c") == nil)
            // Applied separately, the other steps are done.
            let again = stage.applier.apply(try steps())
            #expect(again == [.done, .changed, .done])
        }
    }

    private func status(_ stage: ApplierStage, _ name: String) throws -> stat {
        var status = stat()
        #expect(lstat(stage.path + "/" + name, &status) == 0)
        return status
    }

    private func inode(_ stage: ApplierStage, _ name: String) throws -> UInt64 {
        var status = stat()
        #expect(lstat(stage.path + "/" + name, &status) == 0)
        return UInt64(status.st_ino)
    }

    @Test func filesBeingWrittenArePutOff() throws {
        try ApplierStage.with { stage in
            try stage.write("old", to: "a")
            let expected = try stage.expected("a")
            let writer = open(stage.path + "/a", O_RDWR | O_CLOEXEC)
            let (name, _) = try stage.file("new", item: try #require(try stage.item("a")).id)
            #expect(
                stage.apply(.replace(incoming: name, at: stage.place("a"), expected: expected))
                    == .open)
            close(writer)
            let reader = open(stage.path + "/a", O_RDONLY | O_CLOEXEC)
            var result = ApplierResult.open
            try wait(for: "the step, which is \(result)") {
                result = stage.apply(
                    .replace(incoming: name, at: stage.place("a"), expected: expected))
                return result != .open ? true : nil
            }
            #expect(result == .done)
            // A handle keeps the version that it opened.
            var bytes = [UInt8](repeating: 0, count: 10)
            #expect(read(reader, &bytes, 10) == 3 && bytes[..<3].elementsEqual(Array("old".utf8)))
            close(reader)
            #expect(stage.text("a") == "new")
        }
    }

    @Test func onlyTheApplierSeesPreparedItems() throws {
        try ApplierStage.with { stage in
            let hidden = stage.path + "/.concord-incoming"
            var status = stat()
            #expect(stat(hidden, &status) == -1 && errno == ENOENT)
            let (name, _) = try stage.file("secret")
            #expect(stage.apply(.make(incoming: name, at: stage.place("a"))) == .done)
            let (second, _) = try stage.file("secret too")
            #expect(stat(hidden, &status) == -1 && errno == ENOENT)
            #expect(open(hidden + "/" + second, O_RDONLY) == -1 && errno == ENOENT)
            #expect(mkdir(hidden, 0o755) == -1 && errno == EROFS)
            let listed = try FileManager.default.contentsOfDirectory(atPath: stage.path)
            #expect(listed == ["a"])
            #expect(stage.apply(.make(incoming: second, at: stage.place("b"))) == .done)
        }
    }

    @Test func packagesAreSwappedWhole() throws {
        try ApplierStage.with { stage in
            mkdir(stage.path + "/p.pages", 0o755)
            try stage.write("one", to: "p.pages/x")
            try stage.write("same", to: "p.pages/y")
            try stage.quiet()
            let item = try #require(try stage.item("p.pages"))
            #expect(item.current != nil)
            let (name, arrival) = try stage.package(["x": "two", "y": "same"], item: item.id)
            #expect(
                stage.apply(
                    .replacePackage(
                        incoming: name, at: stage.place("p.pages"), inode: item.inode,
                        changed: item.changed)) == .done)
            #expect(stage.text("p.pages/x") == "two")
            try stage.quiet()
            let now = try #require(try stage.item("p.pages"))
            #expect(now.current == arrival.version?.id && now.key == item.key)
            let left = try FileManager.default.contentsOfDirectory(
                atPath: stage.base + "/store/incoming")
            #expect(left.isEmpty)
            // A local edit is followed by a plan that does not know it.
            try stage.write("mine", to: "p.pages/x")
            let (late, _) = try stage.package(["x": "three"], item: item.id)
            #expect(
                stage.apply(
                    .replacePackage(
                        incoming: late, at: stage.place("p.pages"), inode: now.inode,
                        changed: now.changed)) == .changed)
            #expect(stage.text("p.pages/x") == "mine")
        }
    }

    @Test func packagesAreRemovedWhole() throws {
        try ApplierStage.with { stage in
            mkdir(stage.path + "/p.pages", 0o755)
            mkdir(stage.path + "/p.pages/inner", 0o755)
            try stage.write("one", to: "p.pages/x")
            try stage.write("two", to: "p.pages/inner/y")
            let item = try #require(try stage.item("p.pages"))
            #expect(item.current != nil && item.changed != 0)
            func step(_ item: Item) -> ApplierStep {
                .removePackage(
                    at: stage.place("p.pages"), inode: item.inode, changed: item.changed,
                    aside: stage.volume.arrivals.asideName(for: item.id))
            }
            // A change that the plan does not know is kept.
            try stage.write("mine", to: "p.pages/x")
            #expect(stage.apply(step(item)) == .changed)
            #expect(stage.text("p.pages/x") == "mine")
            // It is not recorded while a program has it open.
            let now = try wait(for: "the package to be recorded") { () -> Item? in
                let now = try stage.item("p.pages")
                return now?.current != item.current && now?.changed != 0 ? now : nil
            }
            let writer = open(stage.path + "/p.pages/x", O_RDWR | O_CLOEXEC)
            #expect(stage.apply(step(now)) == .open)
            close(writer)
            try stage.quiet()

            let watcher = try Watcher([stage.path])
            let last = try #require(try stage.item("p.pages"))
            var result = ApplierResult.open
            try wait(for: "the step, which is \(result)") {
                result = stage.apply(step(last))
                return result != .open ? true : nil
            }
            #expect(result == .done)
            #expect(watcher.events() == ["mount/p.pages from"])
            try stage.quiet()
            #expect(try stage.item("p.pages") == nil)
            let left = try FileManager.default.contentsOfDirectory(
                atPath: stage.base + "/store/incoming")
            #expect(left.isEmpty)
            // Its history is complete: it has at least the first contents and those written later.
            let found = try stage.volume.history.document(item.id)
            let history = try #require(found)
            #expect(history.state == .deleted && history.versions.count >= 2)
            for version in history.versions {
                let content = try stage.volume.versions.content(of: version.id)
                for (index, entry) in content.manifest.entries.enumerated()
                where entry.kind == .file {
                    var bytes = [UInt8](repeating: 0, count: 16)
                    let count = try bytes.withUnsafeMutableBytes {
                        try content.read(index, into: $0, at: 0)
                    }
                    #expect(count == Int(entry.size))
                }
            }
            let findings = Examination.findings(in: stage.volume, repair: false) { _, _ in }
            #expect(!findings.contains { $0.severity == .damage })
        }
    }

    @Test func theApplierIsRestarted() throws {
        try ApplierStage.with { stage in
            var steps: [ApplierStep] = []
            for index in 0..<300 {
                steps.append(
                    .make(
                        incoming: try stage.file("text \(index)").0,
                        at: stage.place("f\(index)")))
            }
            let killer = Mutex(0)
            let isOver = Mutex(false)
            Thread.detachNewThread { [applier = stage.applier] in
                while !isOver.withLock({ $0 }) {
                    usleep(5_000)
                    guard killer.withLock({ $0 }) < 5, let process = applier.process else {
                        continue
                    }
                    kill(process, SIGKILL)
                    killer.withLock { $0 += 1 }
                    usleep(20_000)
                }
                killer.withLock { $0 = 100 }
            }
            let results = stage.applier.apply(steps)
            isOver.withLock { $0 = true }
            try wait(for: "the killer") { killer.withLock { $0 } == 100 ? true : nil }
            #expect(results.count { $0 == .done } >= 290)
            for (index, result) in results.enumerated() where result == .done {
                #expect(stage.text("f\(index)") == "text \(index)")
            }
            try stage.quiet()
        }
    }

    @Test func itHoldsNothingBetweenBatches() throws {
        let stage = try ApplierStage()
        let (name, _) = try stage.file("text")
        #expect(stage.apply(.make(incoming: name, at: stage.place("a"))) == .done)
        let process = try #require(stage.applier.process)
        #expect(umount2(stage.path, 0) == 0)
        stage.end()
        #expect(kill(process, 0) == -1)
    }

    @Test func aThousandFilesASecond() throws {
        try ApplierStage.with { stage in
            let steps = try (0..<1000).map { index -> ApplierStep in
                .make(incoming: try stage.file("text").0, at: stage.place("f\(index)"))
            }
            let start = Date()
            let results = stage.applier.apply(steps)
            print("applier: 1000 files in \(Date().timeIntervalSince(start)) s")
            #expect(results.allSatisfy { $0 == .done })
        }
    }

    @Test func aPresenterIsAskedAndNotified() throws {
        try ApplierStage.with { stage in
            try stage.write("old", to: "a")
            let heard = Mutex<[String]>([])
            let client = Mutex<CoordinationClient?>(nil)
            let turns = try CoordinationClient(
                socket: stage.socket,
                pushed: { push in
                    guard let message = push.message else { return }
                    heard.withLock { $0.append(message.kind.rawValue) }
                    guard message.kind.isAsking, let turn = message.turn else { return }
                    var answer = Control.Request(.answer)
                    answer.presenter = message.presenter
                    answer.turn = turn
                    client.withLock { $0 }?.ask(answer) { _ in }
                }, ended: {})
            client.withLock { $0 = turns }
            var request = Control.Request(.present)
            request.presenter = 1
            request.path = RawText(path: [Name("a")])
            request.hears = PresenterMessage.Kind.allCases.map(\.rawValue)
            _ = try turns.ask(request, as: Nothing.self)

            let id = try #require(try stage.item("a")).id
            let (name, _) = try stage.file("new", item: id)
            #expect(
                stage.apply(
                    .replace(
                        incoming: name, at: stage.place("a"), expected: try stage.expected("a")))
                    == .done)
            try wait(for: "the presenter") {
                heard.withLock { $0.contains("reacquire") && $0.contains("changed") } ? true : nil
            }
            #expect(heard.withLock { $0.first } == "relinquishToWriter")
            #expect(heard.withLock { $0.contains("save") })
            heard.withLock { $0 = [] }
            try stage.quiet()
            #expect(
                stage.apply(
                    .move(
                        from: stage.place("a"), inode: try inode(stage, "a"), to: stage.place("b")))
                    == .done)
            try wait(for: "the move") { heard.withLock { $0.contains("moved") } ? true : nil }
            heard.withLock { $0 = [] }
            try stage.quiet()
            #expect(
                stage.apply(.remove(at: stage.place("b"), expected: try stage.expected("b")))
                    == .done)
            #expect(heard.withLock { $0.contains("accommodateDeletion") })
            client.withLock { $0 = nil }
            turns.close()
        }
    }

    /// The process stands for one that waits for a presenter, which may take many seconds.
    @Test("a step that waits is given up when the applier is stopped") func waiting() throws {
        try ApplierStage.with { stage in
            try stage.write("1", to: "a")
            let applier = Applier(
                session: stage.session, volume: stage.volume, socketPath: stage.socket,
                program: "/bin/sh", arguments: ["sh", "-c", "exec sleep 1000"])
            let step = ApplierStep.remove(at: stage.place("a"), expected: try stage.expected("a"))
            let (isAnswered, isOver) = (
                DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
            )
            let results = Mutex<[ApplierResult]>([])
            Foundation.Thread.detachNewThread {
                let found = applier.apply([step, step])
                results.withLock { $0 = found }
                isAnswered.signal()
            }
            try wait(for: "the process") { applier.process }
            Foundation.Thread.detachNewThread {
                applier.stop()
                isOver.signal()
            }
            guard isOver.wait(timeout: .now() + 60) == .success else {
                if let process = applier.process { _ = kill(process, SIGKILL) }
                throw SupportError("the applier waits for the step")
            }
            #expect(isAnswered.wait(timeout: .now() + 60) == .success)
            let hasFailed = results.withLock { results in
                results.count == 2 && results.allSatisfy { $0 != .done }
            }
            #expect(hasFailed && applier.process == nil && stage.text("a") == "1")
        }
    }
}
