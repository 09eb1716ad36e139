import CLinux
import Control
import FileCoordination
import Foundation
import Glibc
import Model
import Support
import Synchronization
import Testing

/// The reported safety of documents, on real mounts and with a real hub.
@Suite("Reported safety", .serialized) struct SafetyTests {
    private func status(_ fleet: Fleet, _ index: Int, _ path: String) throws -> DocumentReport {
        let place = try MountedPath(FilePath("\(fleet.devices[index].path)/\(path)"))
        return try ControlClient(socket: place.socket).ask(
            Request(.status, path: place.components), as: DocumentReport.self)
    }

    private func attribute(_ fleet: Fleet, _ index: Int, _ path: String, _ name: String) -> String?
    {
        var value = [UInt8](repeating: 0, count: 256)
        let file = "\(fleet.devices[index].path)/\(path)"
        let descriptor = open(file, 0o1000_0000)  // O_PATH: nothing is downloaded
        defer { close(descriptor) }
        let count = cl_getxattr_fd(descriptor, "user.concord.\(name)", &value, value.count)
        return count < 0 ? nil : String(decoding: value[..<count], as: UTF8.self)
    }

    private func waitForHub(_ fleet: Fleet, _ index: Int, _ path: String = "") throws {
        try Programs.fsctl(
            "wait", "--durable", "hub", "\(fleet.devices[index].path)/\(path)"
        ).succeed()
    }

    @Test func whoHasItIsTold() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a", "text")
            try fleet.shell(0, "mkdir d; echo b > d/b")
            try waitForHub(fleet, 0, "a")
            try waitForHub(fleet, 0)
            #expect(try status(fleet, 0, "a").durability == "hub")
            #expect(try status(fleet, 0, "d").durability == "hub")
            #expect(try status(fleet, 0, "").durability == "hub")
            try fleet.settle()
            // The other device has downloaded all of it and reports that.
            try wait(for: "two devices") { try status(fleet, 0, "a").devices == 2 ? true : nil }
            try wait(for: "the attribute") {
                attribute(fleet, 1, "a", "durability") == "hub 2" ? true : nil
            }
            #expect(attribute(fleet, 0, "a", "state") == "current")
            let shown = try Programs.fsctl("status", "\(fleet.devices[0].path)/a").succeed()
            #expect(shown.contains("hub, on 2 devices"))
            let url = URL(filePath: "\(fleet.devices[0].path)/a")
            #expect(try FileCoordinator.durability(ofItemAt: url) == .hub(devices: 2))
            #expect(try FileCoordinator.durability(ofItemAt: URL(filePath: "/proc")) == nil)

            // Evicted contents do not count any more; downloaded ones do.
            try Programs.fsctl("evict", "\(fleet.devices[1].path)/a").succeed()
            #expect(attribute(fleet, 1, "a", "state") == "dataless")
            try wait(for: "one device") { try status(fleet, 0, "a").devices == 1 ? true : nil }
            #expect(fleet.text(1, "a") == "text")
            try wait(for: "two again") { try status(fleet, 0, "a").devices == 2 ? true : nil }
        }
    }

    @Test func oneWhoJoinsWithTheSameHasTheSameVersion() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "the same")
            try waitForHub(fleet, 0)
            try fleet.join { device in
                try Data("the same".utf8).write(to: URL(filePath: "\(device.path)/a"))
                try device.waitForDisk()
            }
            try fleet.expectEqual()
            try waitForHub(fleet, 1)
            try wait(for: "its confirmation") {
                try status(fleet, 1, "a").durability == "hub" ? true : nil
            }
            try wait(for: "two devices") { try status(fleet, 1, "a").devices == 2 ? true : nil }
            // Evicted contents can be downloaded again by the version id that the hub knows.
            try Programs.fsctl("evict", "\(fleet.devices[1].path)/a").succeed()
            #expect(attribute(fleet, 1, "a", "state") == "dataless")
            #expect(fleet.text(1, "a") == "the same")
        }
    }

    @Test func waitingSaysWhatFor() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "text")
            try waitForHub(fleet, 0)
            try fleet.offline(0)
            try fleet.put(0, "a", "more")
            try fleet.devices[0].waitForDisk()
            #expect(try status(fleet, 0, "a").durability == "disk")
            #expect(attribute(fleet, 0, "a", "state") == "uploading")
            let path = "\(fleet.devices[0].path)/a"
            let result = try Programs.fsctl(
                "wait", "--durable", "hub", "--timeout", "1", path
            ).run()
            #expect(result.status != 0)
            #expect(result.errors.contains("a has not been sent"))
            #expect(result.errors.contains("This device is offline; fsctl online"))
            let report = try fleet.report(fleet.devices[0])
            #expect(report.hub?.waiting.map(\.path.text) == ["a"])
            let shown = try Programs.fsctl("status", fleet.devices[0].path).succeed()
            #expect(shown.contains("a has not been sent"))
            try fleet.online(0)
            try waitForHub(fleet, 0)
            #expect(try fleet.report(fleet.devices[0]).hub?.waiting == [])
            #expect(attribute(fleet, 0, "a", "state") == "current")

            // A name that other machines cannot represent is never sent.
            try fleet.shell(0, "echo x > $'\\xff'; echo y > b")
            let all = try Programs.fsctl(
                "wait", "--durable", "hub", fleet.devices[0].path
            ).run()
            #expect(all.status != 0 && all.errors.contains("not UTF-8"), "\(all.errors)")
            try fleet.settle()
            let nameless = try fleet.report(fleet.devices[0]).hub
            #expect(nameless?.waiting.map(\.path.bytes) == [[0xFF]])
            #expect(nameless?.unsent == 0 && nameless?.refused == 1)
            let counted = try Programs.fsctl("status", fleet.devices[0].path).succeed()
            #expect(counted.contains("everything but what is refused"), "\(counted)")
            var request = Request(.wait, path: [Name(bytes: [0xFF])])
            request.durability = "hub"
            let place = try MountedPath(FilePath(fleet.devices[0].path))
            let client = try ControlClient(socket: place.socket)
            let error = #expect(throws: VolumeError.self) {
                try client.ask(request, as: Nothing.self)
            }
            #expect(error?.message.contains("not UTF-8") == true)
            // After a rename it is sent, and nothing of it is left where it was removed.
            try fleet.shell(0, "mv $'\\xff' c; echo x > $'\\xfe'; mv b $'\\xfd'")
            try fleet.settle()
            #expect(try fleet.report(fleet.devices[0]).hub?.refused == 2)
            try fleet.shell(0, "rm $'\\xfe'; mv $'\\xfd' b")
            try waitForHub(fleet, 0)
            try wait(for: "the hub to refuse nothing") {
                try fleet.report(fleet.devices[0]).hub?.refused == 0 ? true : nil
            }
        }
    }

    @Test func waitingWithoutAHubIsRefused() throws {
        try MountedVolume.with { device in
            let result = try Programs.fsctl("wait", "--durable", "hub", device.path).run()
            #expect(result.status != 0 && result.errors.contains("fsctl signin"))
        }
    }

    // MARK: Signing out

    @Test func signingOutAsksPresentersToClose() throws {
        try Fleet.with(1) { fleet in
            let device = fleet.devices[0]
            try fleet.put(0, "a", "text")
            try waitForHub(fleet, 0)
            let watcher = try watching(device.path)
            let file = URL(filePath: "\(device.path)/a")
            let heard = Mutex<[PresenterMessage.Kind]>([])
            let client = Mutex<CoordinationClient?>(nil)
            let place = try MountedPath(FilePath("\(device.path)/a"))
            let turns = try CoordinationClient(
                socket: place.socket,
                pushed: { push in
                    guard let message = push.message else { return }
                    heard.withLock { $0.append(message.kind) }
                    guard message.kind.isAsking, let turn = message.turn else { return }
                    if message.kind == .save {
                        // The person's unsaved changes.
                        try? Data("saved".utf8).write(to: file)
                    }
                    var answer = Request(.answer)
                    answer.presenter = message.presenter
                    answer.turn = turn
                    client.withLock { $0 }?.ask(answer) { _ in }
                }, ended: {})
            client.withLock { $0 = turns }
            try present(place, to: turns)

            try Programs.fsctl("signout", "--at", device.path).succeed()
            #expect(heard.withLock { $0.contains(.save) && $0.contains(.accommodateDeletion) })
            #expect(fleet.text(0, "a") == "saved")
            try wait(for: "the news") { watcher.events.withLock { $0.count } == 1 ? true : nil }
            #expect(watcher.events.withLock { $0.last }?.token == nil)
            client.withLock { $0 = nil }
            turns.close()

            // The changes that the presenter saved reached the hub before, so a joining device has
            // them.
            try fleet.signIn(device)
            try wait(for: "the news") { watcher.events.withLock { $0.count } == 2 ? true : nil }
            #expect(watcher.events.withLock { $0.last }?.token?.isEmpty == false)
            watcher.client.close()
            let other = try fleet.join()
            try fleet.settle()
            #expect(
                try String(contentsOfFile: "\(other.path)/a", encoding: .utf8) == "saved")
        }
    }

    /// Registers a presenter for all kinds of messages.
    private func present(_ place: MountedPath, to turns: CoordinationClient) throws {
        var request = Request(.present, path: place.components)
        request.presenter = 1
        request.hears = PresenterMessage.Kind.allCases.map(\.rawValue)
        _ = try turns.ask(request, as: Nothing.self)
    }

    @Test func whoCannotCloseIsHeard() throws {
        try Fleet.with(1) { fleet in
            let device = fleet.devices[0]
            try fleet.put(0, "a", "text")
            try waitForHub(fleet, 0)
            let client = Mutex<CoordinationClient?>(nil)
            let place = try MountedPath(FilePath("\(device.path)/a"))
            let turns = try CoordinationClient(
                socket: place.socket,
                pushed: { push in
                    guard let message = push.message, message.kind.isAsking else { return }
                    var answer = Request(.answer)
                    answer.presenter = message.presenter
                    answer.turn = message.turn
                    answer.failure = "the disk is full"
                    client.withLock { $0 }?.ask(answer) { _ in }
                }, ended: {})
            client.withLock { $0 = turns }
            try present(place, to: turns)
            let result = try Programs.fsctl("signout", "--at", device.path).run()
            #expect(result.status != 0 && result.errors.contains("the disk is full"))
            try Programs.fsctl("identity", "--at", device.path).succeed()
            try Programs.fsctl("signout", "--force", "--at", device.path).succeed()
            client.withLock { $0 = nil }
            turns.close()
        }
    }

    private struct Watching: ~Copyable {
        let client: CoordinationClient
        let events: Events
    }

    private final class Events: Sendable {
        private let list = Mutex<[WatchEvent]>([])
        func withLock<T>(_ body: (inout sending [WatchEvent]) -> sending T) -> T {
            list.withLock(body)
        }
    }

    private func watching(_ path: String) throws -> Watching {
        let events = Events()
        let client = try CoordinationClient(
            socket: try MountedPath(FilePath(path)).socket,
            pushed: { push in
                guard let event = push.event, event.kind == .identity else { return }
                events.withLock { $0.append(event) }
            }, ended: {})
        _ = try client.ask(Request(.watch), as: Nothing.self)
        return Watching(client: client, events: events)
    }

    // MARK: Packages

    @Test func aPackageIsRemovedWhole() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p p.rtfd/inner; echo one > p.rtfd/one; echo two > p.rtfd/inner/two
                echo other > other
                """)
            try fleet.expectEqual()
            try fleet.shell(0, "rm -r p.rtfd")
            try fleet.settle()
            try wait(for: "its removal") { try fleet.names(1) == ["other"] ? true : nil }
            try fleet.expectEqual()
            // The package can be undeleted.
            try Programs.fsctl("undelete", "\(fleet.devices[1].path)/p.rtfd").succeed()
            try fleet.shell(1, "grep -qx one p.rtfd/one && grep -qx two p.rtfd/inner/two")
            try fleet.expectEqual()
        }
    }
}
