import Foundation
import Glibc
import Support
import Testing

/// Nothing is lost when processes die, or when old copies of data come back.
@Suite("Nothing is lost between devices", .serialized) struct RecoveryTests {
    @Test("devices and hub are killed while both write") func kills() throws {
        try Fleet.with(2) { fleet in
            for round in 0..<3 {
                try fleet.shell(
                    0, "mkdir a\(round); for i in {1..30}; do echo $i > a\(round)/$i; done")
                try fleet.shell(
                    1, "mkdir b\(round); for i in {1..30}; do echo $i > b\(round)/$i; done")
                switch round {
                case 0: try fleet.hub.kill9()
                case 1: try fleet.devices[0].kill9()
                default: try fleet.devices[1].kill9()
                }
                if round == 0 { try fleet.hub.start() }
                if round > 0 { try fleet.devices[round - 1].mount() }
                try fleet.expectEqual()
                #expect(try fleet.names(0, "b\(round)").count == 30)
                #expect(try fleet.names(1, "a\(round)").count == 30)
            }
            // A device that is restarted after a kill is not a copy of itself.
            for device in fleet.devices { #expect(!device.said.contains("this store is a copy")) }
        }
    }

    /// In `make soak` this is longer than each lease and time limit.
    static let pauses =
        ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] == nil
        ? [2] : [2, 180]

    @Test(
        "a device is stopped in the middle of a write, and continues there", arguments: pauses)
    func stopped(seconds: Int) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "for i in {1..50}; do echo $i > $i; done")
            try fleet.expectEqual()
            var command = Command(
                "/bin/bash", "-ec",
                """
                exec 3> large
                for i in {1..40}; do head -c 200000 /dev/urandom >&3; echo $i > $i; sleep 0.05; done
                """)
            command.directory = fleet.devices[0].path
            command.timeoutSeconds = 300
            let writing = command
            let writer = Thread { _ = try? writing.run() }
            writer.start()
            usleep(500_000)
            try fleet.devices[0].suspend()
            try fleet.shell(1, "echo other > other; echo new > 50")
            try fleet.settle([1])
            sleep(UInt32(seconds))
            fleet.devices[0].resume()
            try wait(seconds: 60, for: "the writer") { writer.isFinished ? true : nil }
            try fleet.expectEqual()
            #expect(fleet.text(1, "40") == "40\n")
            #expect(fleet.text(0, "50") == "new\n")
            #expect(fleet.text(0, "other") == "other\n")
            let path = "\(fleet.devices[1].path)/large"
            #expect(try Data(contentsOf: URL(filePath: path)).count == 40 * 200_000)
            for index in 0..<2 {
                for name in try fleet.names(index) {
                    #expect(try fleet.conflicts(index, name).isEmpty, "\(name)")
                }
            }
        }
    }

    @Test("the hub is restored from an old backup: newer changes are sent again, no conflict")
    func restoredHub() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "echo 1 > kept; echo 1 > edited; echo 1 > gone; mkdir d; echo 1 > d/f")
            try fleet.expectEqual()
            let backup = try fleet.hub.backUp()
            try fleet.shell(0, "echo 2 > edited; echo 2 > new; mv d e")
            try fleet.shell(1, "rm gone")
            try fleet.expectEqual()
            try fleet.hub.stop()
            try fleet.hub.restore(backup)
            try fleet.hub.start()
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(fleet.text(index, "kept") == "1\n")
                #expect(fleet.text(index, "edited") == "2\n")
                #expect(fleet.text(index, "new") == "2\n")
                #expect(fleet.text(index, "e/f") == "1\n")
                #expect(try fleet.conflicts(index, "edited").isEmpty)
            }
        }
    }

    /// The hub does not know that it is an older copy. Operations that the device numbered while
    /// the hub was down must not block later ones.
    @Test("the hub comes back as an older copy while a device has unsent changes")
    func olderHub() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "echo 1 > kept; echo 1 > edited; echo 1 > moved")
            try fleet.settle()
            let copy = try fleet.hub.copyData()
            try fleet.shell(0, "echo 2 > edited; echo 2 > new")
            try fleet.settle()
            // An operation without contents gets its number without the hub. A device that knows
            // that its hub has ended would number nothing, so the hub is only stopped. If it stops
            // while it answers, the device numbers nothing before it has the answer.
            for attempt in 1... {
                fleet.hub.send(SIGSTOP)
                try fleet.shell(0, attempt == 1 ? "mkdir d; mv moved d" : "mkdir d/\(attempt)")
                do {
                    try wait(seconds: 5, for: "what is to be sent to have a number") {
                        try fleet.report(fleet.devices[0]).hub?.sending ?? 0 > 0 ? true : nil
                    }
                    break
                } catch {
                    guard attempt < 8 else { throw error }
                    fleet.hub.send(SIGCONT)
                    try fleet.settle()
                }
            }
            try fleet.hub.kill9()
            try fleet.shell(0, "echo 3 > edited; echo 3 > later")
            try fleet.hub.replaceData(by: copy)
            try fleet.hub.start()
            try fleet.settle()
            // The device stays synchronised.
            try fleet.shell(0, "echo 4 > last; rm kept")
            try fleet.settle()
            try fleet.join()
            try fleet.expectEqual()
            #expect(try fleet.names(1) == ["d", "edited", "last", "later", "new"])
            #expect(fleet.text(1, "edited") == "3\n")
            #expect(fleet.text(1, "d/moved") == "1\n")
            #expect(try fleet.conflicts(1, "edited").isEmpty)
        }
    }

    /// The copy includes `heads`, and another device's changes reach past what the first device had
    /// seen before the first one asks.
    @Test("the hub comes back as an older copy, and another device continues first")
    func olderHubThatGrew() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > kept; echo 1 > edited")
            try fleet.expectEqual()
            let copy = try fleet.hub.copyData()
            try fleet.settle()
            try fleet.offline(1)
            try fleet.shell(0, "echo 2 > edited; echo 2 > new")
            try fleet.settle([0])
            try fleet.offline(0)
            try fleet.hub.stop()
            try fleet.hub.replaceData(by: copy)
            try fleet.hub.start()
            try fleet.shell(1, "for i in {1..20}; do echo $i > $i; done")
            try fleet.online(1)
            try fleet.settle([1])
            try fleet.online(0)
            try fleet.expectEqual(tries: 3)
            for index in 0..<2 {
                #expect(fleet.text(index, "new") == "2\n")
                #expect(fleet.text(index, "edited") == "2\n")
                #expect(fleet.text(index, "20") == "20\n")
                #expect(try fleet.conflicts(index, "edited").isEmpty)
            }
        }
    }

    /// The other device sends only what is current, with the id of its last save. The placeholder
    /// was made for an earlier save of the same contents.
    @Test("a placeholder can be read after a hub came back that has its contents by another save")
    func placeholder() throws {
        try Fleet.with(2) { fleet in
            let copy = try fleet.hub.copyData()
            let data = Data((0..<50_000).map { UInt8(truncatingIfNeeded: $0 / 100) })
            func save(_ data: Data) throws {
                try data.write(to: URL(filePath: "\(fleet.devices[0].path)/f"))
                try fleet.devices[0].waitForDisk()
            }
            try save(data)
            try fleet.expectEqual()
            let path = "\(fleet.devices[1].path)/f"
            try Programs.fsctl("evict", path).succeed()
            try fleet.offline(1)
            try save(Data("other".utf8))
            try save(data)
            try fleet.settle([0])
            // Nobody can give the hub the save again for which the placeholder was made.
            try Programs.fsctl("forget", "\(fleet.devices[0].path)/f", "1").succeed()
            try fleet.hub.stop()
            try fleet.hub.replaceData(by: copy)
            try fleet.hub.start()
            try fleet.shell(0, "echo 1 > later")
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.settle()
            #expect(try Data(contentsOf: URL(filePath: path)) == data)
            try Programs.fsctl("evict", path).succeed()
            try fleet.expectEqual(tries: 3)
        }
    }

    @Test("a device's old store comes back: it catches up and overwrites nothing")
    func restoredDevice() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > edited; echo 1 > gone; echo 1 > mine")
            try fleet.expectEqual()
            let device = fleet.devices[0]
            try device.unmount()
            try Command("cp", "-a", device.store, "\(device.store)-old").succeed()
            try device.mount()
            try fleet.shell(0, "echo 2 > mine; echo 2 > new")
            try fleet.shell(1, "echo 2 > edited; rm gone")
            try fleet.expectEqual()
            try device.unmount()
            try Command("rm", "-r", device.store).succeed()
            try Command("mv", "\(device.store)-old", device.store).succeed()
            try device.mount()
            try fleet.expectEqual()
            #expect(fleet.text(0, "edited") == "2\n")
            #expect(fleet.text(0, "mine") == "2\n")
            #expect(fleet.text(0, "new") == "2\n")
            #expect(fleet.text(0, "gone") == nil)
            #expect(try fleet.conflicts(0, "mine").isEmpty)
        }
    }

    @Test("two trees with equal contents become one volume") func equalTrees() throws {
        try Fleet.with(1) { fleet in
            let fill = "mkdir -p d/e; for i in {1..40}; do echo $i > d/e/$i; done; echo same > same"
            try fleet.shell(0, fill + "; echo one > differs")
            try fleet.settle()
            let other = try fleet.join { device in
                var command = Command("/bin/bash", "-ec", fill + "; echo two > differs")
                command.directory = device.path
                try command.succeed()
                try device.waitForDisk()
            }
            try fleet.expectEqual()
            #expect(try fleet.names(0).count == 3)
            #expect(try fleet.names(1, "d/e").count == 40)
            // One of them is current, and the other one is a conflict version.
            let texts = try [fleet.text(0, "differs") ?? ""] + fleet.conflicts(0, "differs")
            #expect(texts.sorted() == ["one\n", "two\n"])
            #expect(other.pid > 0)
        }
    }

    @Test("a mass deletion is held until it is confirmed") func brake() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "mkdir d; for i in {1..1300}; do echo $i > d/$i; done; echo 1 > kept")
            try fleet.expectEqual()
            try fleet.shell(0, "rm -r d")
            let path = fleet.devices[0].path
            try wait(seconds: 120, for: "the brake") {
                (try fleet.report(fleet.devices[0]).hub?.held ?? 0) >= 1300 ? true : nil
            }
            #expect(try fleet.names(1, "d").count == 1300)
            // By then all of them have been examined again, in more than one batch.
            sleep(3)
            #expect(try fleet.names(1, "d").count == 1300)
            try fleet.put(0, "kept", "2")
            try wait(seconds: 60, for: "what is no deletion") {
                fleet.text(1, "kept") == "2" ? true : nil
            }
            try Programs.fsctl("brake", "--release", "--at", path).succeed()
            try fleet.expectEqual()
            #expect(try fleet.names(1) == ["kept"])
        }
    }

    @Test("a device that only receives sends nothing") func noEcho() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p a/b p.rtfd; echo 1 > a/b/f; ln -s f a/b/l; echo 1 > p.rtfd/TXT.rtf
                head -c 3000000 /dev/urandom > big; chmod 600 a/b/f; setfattr -n user.x -v y a/b/f
                touch -d 2001-02-03 a/b/f; : > empty
                """)
            try fleet.expectEqual()
            try fleet.shell(
                0, "echo 2 > a/b/f; mv a c; mv big small; rm empty; echo 2 > p.rtfd/two")
            try fleet.expectEqual()
            let sent = try fleet.report(fleet.devices[1]).hub
            // `bytesUp` counts the bodies of requests, and this device only requested contents.
            #expect(sent?.unsent == 0 && sent?.sending == 0)
            let head = sent?.head
            try fleet.devices[1].remount()
            try fleet.settle()
            #expect(try fleet.report(fleet.devices[1]).hub?.head == head)
        }
    }
}

/// Contents on demand, from a real hub.
@Suite("Contents from the hub", .serialized) struct ContentsFromHubTests {
    @Test("contents are evicted and read again, but not without the hub") func evicting() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c 5000000 /dev/urandom > big; echo small > small")
            try fleet.expectEqual()
            let path = "\(fleet.devices[1].path)/big"
            let mine = try Data(contentsOf: URL(filePath: "\(fleet.devices[0].path)/big"))
            // The document is large and new, so only its name arrived.
            #expect(try Data(contentsOf: URL(filePath: path)) == mine)
            try Programs.fsctl("evict", path).succeed()
            let used = try Command("du", "-k", "\(fleet.devices[1].tree)/big").succeed()
            #expect(Int(used.prefix { $0.isNumber }) ?? 99 <= 8, "\(used)")
            try fleet.hub.stop()
            let result = try Command("cat", path).run()
            #expect(result.status != 0 && result.errors.contains("unreachable"))
            try Command("ls", "-lR", fleet.devices[1].path).succeed()
            #expect(fleet.text(1, "small") == "small\n")
            try fleet.hub.start()
            try fleet.settle()
            #expect(try Data(contentsOf: URL(filePath: path)) == mine)
        }
    }

    @Test("a joining device has each name at once, and contents when they are read")
    func joining() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0, "mkdir -p a/b/c; for i in {1..200}; do echo text $i > a/b/c/$i; done; ln -s a l")
            try fleet.settle()
            try fleet.join()
            try fleet.settle()
            #expect(try fleet.report(fleet.devices[1]).hub?.dataless == 200)
            #expect(fleet.text(1, "a/b/c/17") == "text 17\n")
            #expect(try fleet.report(fleet.devices[1]).hub?.dataless ?? 0 >= 198)
            try Programs.fsctl("download", "\(fleet.devices[1].path)/a").succeed()
            try fleet.expectEqual()
            #expect(try fleet.report(fleet.devices[1]).hub?.dataless == 0)
        }
    }

    @Test("packages are always downloaded completely, also large ones and on a joining device")
    func packages() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p small.rtfd large.rtfd/inner; echo text > small.rtfd/TXT.rtf
                head -c 5000000 /dev/urandom > large.rtfd/inner/picture
                head -c 2000000 /dev/urandom > large.rtfd/other
                """)
            try fleet.expectEqual()
            try fleet.join()
            try fleet.expectEqual()
            for index in 1..<3 {
                #expect(try fleet.report(fleet.devices[index]).hub?.dataless == 0)
            }
            try fleet.shell(2, "echo more >> large.rtfd/other; echo new > small.rtfd/new")
            try fleet.expectEqual()
        }
    }
}
