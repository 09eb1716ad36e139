import Control
import Foundation
import Model
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// The requests that the library sends to a daemon, and how it handles the answers.
@Suite("Coordinators") struct CoordinatorTests {
    @Test("options have Apple's numbers")
    func numbers() {
        let reading: [FileCoordinator.ReadingOptions] = [
            .withoutChanges, .resolvesSymbolicLink, .immediatelyAvailableMetadataOnly,
            .forUploading,
        ]
        #expect(reading.map(\.rawValue) == [1, 2, 4, 8])
        let writing: [FileCoordinator.WritingOptions] = [
            .forDeleting, .forMoving, .forMerging, .forReplacing, .contentIndependentMetadataOnly,
        ]
        #expect(writing.map(\.rawValue) == [1, 2, 4, 8, 16])
    }

    @Test("invalid calls are refused with a sentence, without asking the daemon")
    func nonsense() throws {
        let mount = try FakeMount()
        let coordinator = FileCoordinator()
        let url = mount.url("a")
        #expect(throws: FileCoordinationError.self) {
            try coordinator.coordinate(writingItemAt: url, options: [.forMoving, .forMerging]) {
                _ in fail()
            }
        }
        #expect(throws: FileCoordinationError.self) {
            try coordinator.coordinate(readingItemAt: URL(string: "https://a.example/b")!) {
                _ in fail()
            }
        }
        #expect(throws: FileCoordinationError.self) {
            try coordinator.prepare(
                forReadingItemsAt: [url], options: .resolvesSymbolicLink, writingItemsAt: []
            ) { _ in fail() }
        }
        #expect(throws: FileCoordinationError.self) {
            try coordinator.prepare(
                forReadingItemsAt: [], options: [], writingItemsAt: [url], options: .forReplacing
            ) { _ in fail() }
        }
        #expect(mount.verbs.isEmpty)
    }

    @Test("an accessor gets the new place, its value is returned, and the claim ends with it")
    func granted() throws {
        let mount = try FakeMount()
        let url = try mount.file("a")
        mount.script { [desk = mount.desk] request, client in
            guard request.verb == "claim" else { return false }
            desk.grant(request, client, at: ["d/b"])
            return true
        }
        let found = try FileCoordinator().coordinate(writingItemAt: url, options: .forMerging) {
            #expect(mount.verbs == ["claim"])
            return $0
        }
        #expect(found == mount.url("d/b"))
        #expect(mount.verbs == ["claim", "release"])
        let claim = try #require(mount.asked("claim").first)
        #expect(claim.access == [AccessField(writing: [Name("a")], .merging)])
        #expect(mount.asked("release").first?.claim == claim.claim)
        // An accessor that throws ends its claim, too.
        #expect(throws: CocoaError.self) {
            try FileCoordinator().coordinate(readingItemAt: url) { _ in
                throw CocoaError(.fileReadCorruptFile)
            }
        }
        #expect(mount.asked("release").count == 2)
    }

    @Test(
        "a refusal is thrown, and the accessor is not called",
        arguments: [
            (VolumeError.Code.refused, FileCoordinationError.Code.refused), (.denied, .denied),
            (.busy, .busy), (.cancelled, .cancelled),
        ])
    func refused(code: VolumeError.Code, expected: FileCoordinationError.Code) throws {
        let mount = try FakeMount()
        mount.script { [desk = mount.desk] request, client in
            desk.refuse(request, code, client)
            return true
        }
        do {
            try FileCoordinator(waits: false).coordinate(readingItemAt: mount.url("a")) { _ in
                fail()
            }
            Issue.record("nothing was thrown")
        } catch let error as FileCoordinationError {
            #expect(error.code == expected && error.localizedDescription == error.message)
        }
        #expect(mount.asked("claim").first?.try == true)
        #expect(mount.asked("release").isEmpty)
    }

    @Test("outside of volumes nothing is waited for")
    func elsewhere() throws {
        let directory = try TemporaryDirectory("elsewhere")
        let url = URL(filePath: directory.path + "/a")
        try FileCoordinator().coordinate(writingItemAt: url) { try Data().write(to: $0) }
        // The same holds where the directory does not exist.
        let nowhere = URL(filePath: directory.path + "/b/c/d")
        #expect(try FileCoordinator().coordinate(readingItemAt: nowhere) { $0 } == nowhere)
    }

    @Test("items of two volumes are claimed one after the other in one order, and both end")
    func twoVolumes() async throws {
        let mounts = [try FakeMount(), try FakeMount()]
        let order = Mutex<[String]>([])
        for mount in mounts {
            let socket = mount.directory.path
            mount.script { request, _ in
                order.withLock { $0.append("\(request.verb) \(socket)") }
                return false
            }
        }
        let outside = URL(filePath: mounts[0].directory.path + "/outside")
        let all = [mounts[0].url("a"), outside, mounts[1].url("b")]
        for urls in [all, all.reversed()] {
            let intents = urls.map { FileAccessIntent.writingIntent(with: $0) }
            try await FileCoordinator().coordinate(with: intents) {
                #expect(intents.map(\.url) == urls)
            }
        }
        let sockets = mounts.map(\.directory.path).sorted()
        let round = [
            "claim \(sockets[0])", "claim \(sockets[1])", "release \(sockets[1])",
            "release \(sockets[0])",
        ]
        #expect(order.withLock { $0 } == round + round)
    }

    @Test("a coordinator has its own purpose, its presenter's, or the one that is set")
    func purposes() throws {
        let mount = try FakeMount()
        let listener = Listener(mount.url("a"))
        let own = FileCoordinator()
        own.purposeIdentifier = "mine"
        let coordinators = [
            FileCoordinator(), FileCoordinator(), own, FileCoordinator(filePresenter: listener),
            FileCoordinator(filePresenter: listener),
        ]
        for coordinator in coordinators {
            try coordinator.coordinate(readingItemAt: mount.url("a")) { _ in }
        }
        let purposes = mount.asked("claim").map { $0.purposes ?? [] }
        #expect(purposes.allSatisfy { $0.count == 1 } && Set(purposes).count == 4)
        #expect(purposes[2] == ["mine"] && purposes[3] == purposes[4])
    }

    @Test("intermediate links are always resolved, the last one only on request")
    func links() throws {
        let mount = try FakeMount()
        try mount.file("d/a")
        let files = FileManager.default
        try files.createSymbolicLink(atPath: "\(mount.root)/to-d", withDestinationPath: "d")
        try files.createSymbolicLink(atPath: "\(mount.root)/d/to-a", withDestinationPath: "../d/a")
        let outside = mount.directory.path + "/outside"
        try files.createSymbolicLink(atPath: outside, withDestinationPath: "mount/d/to-a")
        let coordinator = FileCoordinator()
        let link = URL(filePath: outside)
        let found = try coordinator.coordinate(
            readingItemAt: link, options: .resolvesSymbolicLink
        ) { $0 }
        #expect(found.path == "\(mount.root)/d/a")
        #expect(try coordinator.coordinate(readingItemAt: link) { $0 } == link)
        let inner = mount.url("to-d/to-a")
        #expect(try coordinator.coordinate(readingItemAt: inner) { $0 } == inner)
        let paths = mount.asked("claim").map { $0.access![0].path.text }
        #expect(paths == ["d/a", "d/to-a"])

        try files.createSymbolicLink(atPath: "\(mount.root)/loop", withDestinationPath: "loop")
        #expect(throws: FileCoordinationError.self) {
            try coordinator.coordinate(
                readingItemAt: mount.url("loop"), options: .resolvesSymbolicLink
            ) { _ in }
        }
    }

    @Test("names that are not UTF-8 work")
    func names() throws {
        let mount = try FakeMount()
        let url = URL(string: "file://\(mount.root)/a%FFb%20c")!
        #expect(try FileCoordinator().coordinate(writingItemAt: url) { $0 } == url)
        let bytes: [UInt8] = [0x61, 0xFF, 0x62, 0x20, 0x63]
        #expect(mount.asked("claim").first?.access?.first?.path.bytes == bytes)
        #expect(FilePath(URL(FilePath(bytes: [0x2F] + bytes))).bytes == [0x2F] + bytes)
    }

    @Test("a cancelled task stops waiting, and its coordinator can still be used")
    func taskCancellation() async throws {
        let mount = try FakeMount()
        let waiting = Mutex<Control.Request?>(nil)
        mount.script { [desk = mount.desk] request, client in
            if request.verb == "claim" && request.access![0].path.text == "a" {
                waiting.withLock { $0 = request }
                return true
            }
            if request.verb == "cancel", let claim = waiting.withLock({ $0 }) {
                desk.refuse(claim, .cancelled, client)
            }
            return false
        }
        let coordinator = FileCoordinator()
        let (a, b) = (mount.url("a"), mount.url("b"))
        let task = Task {
            try await coordinator.coordinate(readingItemAt: a) { _ in fail() }
        }
        try mount.wait(for: "claim")
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        try await coordinator.coordinate(readingItemAt: b) { _ in }

        // Cancelling the coordinator is final.
        let other = Task {
            try await coordinator.coordinate(readingItemAt: a) { _ in fail() }
        }
        try mount.wait(for: "claim", count: 3)
        coordinator.cancel()
        do { try await other.value } catch FileCoordinationError.cancelled {}
        await #expect(throws: FileCoordinationError.self) {
            try await coordinator.coordinate(readingItemAt: b) { _ in }
        }
        #expect(mount.asked("claim").count == 3)
    }

    @Test("a move that the daemon cannot see is reported within the claim on the item")
    func moved() throws {
        let mount = try FakeMount()
        let (from, to) = (mount.url("letter.rtf"), mount.url("letter.rtfd"))
        let coordinator = FileCoordinator()
        coordinator.item(at: from, didMoveTo: to)
        try coordinator.coordinate(writingItemAt: from) { _ in
            coordinator.item(at: from, willMoveTo: to)
            coordinator.item(at: mount.url("other"), didMoveTo: to)
            coordinator.item(at: from, didMoveTo: to)
        }
        #expect(mount.verbs == ["claim", "moved", "release"])
        let moved = try #require(mount.asked("moved").first)
        #expect(moved.path?.text == "letter.rtf" && moved.to?.text == "letter.rtfd")
        #expect(moved.claim == mount.asked("claim").first?.claim)
    }
}

/// An accessor that must not run.
func fail() { Issue.record("the accessor was called") }
