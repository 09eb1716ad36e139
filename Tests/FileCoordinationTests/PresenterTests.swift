import Control
import Foundation
import Model
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// The messages that presenters get, and the requests that are sent for them.
@Suite("Presenters") struct PresenterTests {
    private func presenting(
        _ url: URL?, _ messages: FilePresenterMessages = .all, _ body: (Listener) throws -> Void
    ) rethrows {
        let listener = Listener(url, messages)
        FileCoordinator.addFilePresenter(listener)
        defer { FileCoordinator.removeFilePresenter(listener) }
        try body(listener)
    }

    @Test("a presenter is registered once, with what it implements, and retired")
    func registering() throws {
        let mount = try FakeMount()
        try presenting(mount.url("a"), [.save, .relinquishToWriter, .versions]) { listener in
            FileCoordinator.addFilePresenter(listener)
            #expect(FileCoordinator.filePresenters.contains { $0 === listener })
            let asked = mount.asked("present")
            #expect(asked.count == 1 && asked[0].path?.text == "a")
            let hears: Set = [
                "relinquishToWriter", "reacquire", "save", "versionGained", "versionLost",
                "versionResolved",
            ]
            #expect(Set(asked[0].hears ?? []) == hears)
            // The presenter's own claims name it.
            try FileCoordinator(filePresenter: listener).coordinate(
                readingItemAt: mount.url("b")
            ) { _ in }
            #expect(mount.asked("claim").last?.presenters == [asked[0].presenter!])
        }
        try mount.wait(for: "retire")
    }

    @Test("all messages have kinds that the daemon knows")
    func kinds() {
        let known = Set(PresenterMessage.Kind.allCases.map(\.rawValue))
        #expect(Set(FilePresenterMessages.all.kinds) == known)
    }

    @Test("accesses overlap, and each ends after its own messages")
    func brackets() throws {
        let mount = try FakeMount()
        try presenting(mount.url("a")) { listener in
            mount.desk.push(.relinquishToReader) { $0.turn = 1 }
            mount.desk.push(.relinquishToWriter) { $0.turn = 2 }
            try mount.wait(for: "answer")
            #expect(mount.asked("answer").map(\.turn) == [2])
            mount.desk.push(.changed)
            mount.desk.push(.reacquire) { $0.turn = 2 }
            try listener.wait(for: "reacquired from writer")
            let reader = listener.reader.withLock { $0 }
            reader? { listener.hear("reacquired from reader") }
            // A second answer has no effect.
            reader? { listener.hear("reacquired from nobody") }
            try mount.wait(for: "answer", count: 2)
            mount.desk.push(.versionGained) { $0.version = "7" }
            mount.desk.push(.reacquire) { $0.turn = 1 }
            try listener.wait(for: "reacquired from reader")
            #expect(
                listener.all == [
                    "reader", "writer", "changed", "reacquired from writer", "gained 7",
                    "reacquired from reader",
                ])
            #expect(mount.asked("answer").map(\.turn) == [2, 1])
        }
    }

    @Test("a presenter that answers too late reacquires its item at once")
    func lateAnswer() throws {
        let mount = try FakeMount()
        try presenting(mount.url("a")) { listener in
            mount.desk.push(.relinquishToReader) { $0.turn = 1 }
            mount.desk.push(.reacquire) { $0.turn = 1 }
            mount.desk.push(.changed)
            try listener.wait(for: "changed")
            listener.reader.withLock { $0 }?({ listener.hear("reacquired") })
            try listener.wait(for: "reacquired")
        }
    }

    @Test("the error of a save is sent in the presenter's words")
    func failure() throws {
        let mount = try FakeMount()
        try presenting(mount.url("a")) { listener in
            mount.desk.push(.save) { $0.turn = 5 }
            try listener.wait(for: "save")
            let error = FileCoordinationError(.denied, "The disk is write-protected.")
            listener.saving.withLock { $0 }?(error)
            try mount.wait(for: "answer")
            #expect(mount.asked("answer")[0].failure == "The disk is write-protected.")
            #expect(mount.asked("answer")[0].turn == 5)
        }
    }

    @Test("a presenter without an item is asked again after an access on its behalf")
    func newDocument() throws {
        let mount = try FakeMount()
        try presenting(nil) { listener in
            #expect(mount.asked("present").isEmpty)
            try FileCoordinator(filePresenter: listener).coordinate(
                writingItemAt: mount.url("new"), options: .forReplacing
            ) { url in listener.url.withLock { $0 = url } }
            #expect(mount.asked("present").map { $0.path?.text } == ["new"])
        }
    }

    @Test("an old URL is translated for a presenter that has not got the move message yet")
    func unheardMove() throws {
        let mount = try FakeMount()
        try presenting(mount.url("old")) { listener in
            listener.presentedItemOperationQueue.isSuspended = true
            mount.desk.push(.moved) { $0.to = RawText("new") }
            // Answers come in order, so the move message has been delivered.
            try FileCoordinator().coordinate(readingItemAt: mount.url("x")) { _ in }
            let coordinator = FileCoordinator(filePresenter: listener)
            let found = try coordinator.coordinate(readingItemAt: mount.url("old")) { $0 }
            #expect(found == mount.url("new"))
            let inside = try coordinator.coordinate(readingItemAt: mount.url("old/in")) { $0 }
            #expect(inside == mount.url("new/in"))
            listener.presentedItemOperationQueue.isSuspended = false
            try listener.wait(for: "moved new")
        }
    }

    @Test("so it is when the move message comes while the claim waits")
    func moveWhileWaiting() throws {
        let mount = try FakeMount()
        try presenting(mount.url("old")) { listener in
            listener.presentedItemOperationQueue.isSuspended = true
            mount.script { [desk = mount.desk] request, client in
                guard request.verb == "claim", request.access![0].path.text == "old" else {
                    return false
                }
                desk.push(.moved) { $0.to = RawText("new") }
                // The claim came after the move, so there is nothing at the old place.
                desk.grant(request, client)
                return true
            }
            let found = try FileCoordinator(filePresenter: listener)
                .coordinate(readingItemAt: mount.url("old")) { $0 }
            #expect(found == mount.url("new"))
            try mount.wait(for: "release", count: 2)
            listener.presentedItemOperationQueue.isSuspended = false
        }
    }

    @Test("a removed presenter gets no more messages, but its reacquirers are called")
    func removing() throws {
        let mount = try FakeMount()
        let listener = Listener(mount.url("a"))
        FileCoordinator.addFilePresenter(listener)
        mount.desk.push(.relinquishToWriter) { $0.turn = 1 }
        try mount.wait(for: "answer")
        listener.presentedItemOperationQueue.isSuspended = true
        mount.desk.push(.changed)
        usleep(50_000)
        FileCoordinator.removeFilePresenter(listener)
        #expect(!FileCoordinator.filePresenters.contains { $0 === listener })
        listener.presentedItemOperationQueue.isSuspended = false
        try listener.wait(for: "reacquired from writer")
        #expect(listener.all == ["writer", "reacquired from writer"])
    }

    @Test("when the daemon ends, waiting calls throw; with a new one, presenters return")
    func daemonEnds() throws {
        let mount = try FakeMount()
        try presenting(mount.url("a")) { listener in
            mount.desk.push(.relinquishToWriter) { $0.turn = 1 }
            try mount.wait(for: "answer")
            mount.script { request, _ in request.verb == "claim" }
            let outcome = Mutex<(any Error)?>(nil)
            let done = DispatchSemaphore(value: 0)
            let url = mount.url("b")
            Thread.detachNewThread {
                do {
                    try FileCoordinator().coordinate(readingItemAt: url) { _ in }
                } catch { outcome.withLock { $0 = error } }
                done.signal()
            }
            try mount.wait(for: "claim")
            mount.stop()
            #expect(done.wait(timeout: .now() + 10) == .success)
            let error = outcome.withLock { $0 } as? FileCoordinationError
            #expect(error?.code == .unavailable && error?.message.contains("daemon") == true)
            try listener.wait(for: "reacquired from writer")

            mount.script { _, _ in false }
            try mount.start()
            try listener.wait(for: "changed")
            #expect(mount.asked("present").count == 2)
            // The new daemon gets no answer for the old daemon's claim.
            mount.desk.push(.relinquishToWriter) { $0.turn = 1 }
            try mount.wait(for: "answer", count: 2)
            try FileCoordinator().coordinate(readingItemAt: url) { _ in }
        }
    }

    @Test("a change in a package is the package's change, unless its presenter wants details")
    func packages() throws {
        let mount = try FakeMount()
        try presenting(mount.url("p.rtfd")) { listener in
            mount.desk.push(.subitemChanged) { $0.path = RawText("p.rtfd/x") }
            try listener.wait(for: "changed")
        }
        try presenting(mount.url("plain")) { listener in
            mount.desk.push(.subitemChanged) { $0.path = RawText("plain/x") }
            mount.desk.push(.versionGained) { $0.version = "1" }
            try listener.wait(for: "gained 1")
            #expect(listener.all == ["gained 1"])
        }
    }
}
