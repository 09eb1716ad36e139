import Foundation
import Glibc
import Support
import Testing

/// Ways in which other vendors' users lost data, each as a test. Sync.docc/Traps.md lists all of
/// them, with those that are tested elsewhere.
@Suite("Traps that rivals shipped", .serialized) struct TrapTests {
    @Test("1: a rename into a folder that nobody has listed") func unlisted() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir from to; for i in {1..40}; do echo $i > from/$i; done")
            try fleet.expectEqual()
            let rename = """
                import os
                for i in range(%d, %d): os.rename("from/%%d" %% i, "to/%%d" %% i)
                """
            let counts = "[ $(ls to | wc -l) = %d ] && [ $(ls from | wc -l) = %d ]"
            // One device lists the first half, the other one the second, so that no cache has
            // everything.
            for (index, first) in [(0, 1), (1, 21)] {
                let device = fleet.devices[index]
                try device.remount()
                try fleet.shell(
                    index, "python3 -c '\(String(format: rename, first, first + 20))'")
                // A rename that returned 0 is kept, however the daemon ends.
                try device.kill9()
                try device.mount()
                let done = first + 19
                try fleet.shell(index, String(format: counts, done, 40 - done))
                try fleet.expectEqual()
            }
            try fleet.join()
            try fleet.expectSound()
            try fleet.shell(
                2, "for i in {1..40}; do grep -qx $i to/$i; done; [ -z \"$(ls from)\" ]")
        }
    }

    @Test("2: attributes are answered while a read waits for the hub") func attributes() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0,
                """
                head -c 3000000 /dev/urandom > large; echo small > small
                setfattr -n user.colour -v red large
                """)
            try fleet.settle()
            try fleet.join()
            try fleet.settle()
            fleet.hub.send(SIGSTOP)
            defer { fleet.hub.send(SIGCONT) }
            let cats = try ["large", "small"].map { try Reading("\(fleet.devices[1].path)/\($0)") }
            for cat in cats { try cat.waitUntilItWaits() }
            try fleet.shell(
                1,
                """
                for name in large small; do
                    getfattr -d $name; stat $name
                    getfattr -n user.concord.state $name | grep -Eq 'dataless|downloading'
                    getfattr -n user.concord.durability $name | grep -q hub
                    if getfattr -n user.absent $name; then false; fi
                done
                getfattr --only-values -n user.colour large | grep -q red
                ls -l; df .
                """)
            for cat in cats { #expect(!cat.hasEnded, "it waits for the hub, the others did not") }
            fleet.hub.send(SIGCONT)
            for cat in cats { #expect(try cat.waitForEnd() == 0) }
            try fleet.expectSound()
        }
    }

    @Test("3: saving equal bytes makes neither a version nor a conflict") func rewrite() throws {
        try Fleet.with(2) { fleet in
            let names = ["inplace", "replaced", "again", "touched"]
            try fleet.shell(0, "for n in \(names.joined(separator: " ")); do echo text > $n; done")
            try fleet.expectEqual()
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.shell(
                    index,
                    """
                    echo text > inplace
                    echo text > replaced.tmp; mv replaced.tmp replaced
                    rm again; echo text > again
                    touch touched
                    """)
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectSound()
            for index in 0..<2 {
                #expect(try fleet.names(index) == names.sorted())
                for name in names {
                    let path = "\(fleet.devices[index].path)/\(name)"
                    #expect(try History.texts(of: path) == ["text\n"], "\(name)")
                    #expect(try fleet.conflicts(index, name).isEmpty, "\(name)")
                }
            }
        }
    }

    @Test("4: a partial download is not sent") func downloads() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                : > film.pdf; head -c 300000 /dev/urandom > film.pdf.crdownload
                head -c 300000 /dev/urandom > book.part; echo > abandoned.part
                """)
            try fleet.settle()
            #expect(try fleet.names(1).filter { $0 != "film.pdf" } == [])
            // This is longer than any wait for a program to continue.
            sleep(2)
            try fleet.shell(
                0, "head -c 300000 /dev/urandom >> film.pdf.crdownload; echo rest >> book.part")
            try fleet.settle()
            #expect(try fleet.names(1).filter { $0 != "film.pdf" } == [])
            try fleet.shell(0, "mv film.pdf.crdownload film.pdf; mv book.part book")
            try fleet.settle()
            #expect(try fleet.names(1) == ["book", "film.pdf"])
            for index in 0..<2 {
                let (film, book) = try (
                    History.of("\(fleet.devices[index].path)/film.pdf").versions,
                    History.of("\(fleet.devices[index].path)/book").versions
                )
                #expect(
                    film.last?.size == 600_000
                        && film.allSatisfy { [0, 600_000].contains($0.size) })
                #expect(book.map(\.size) == [300_005])
                #expect(film.allSatisfy { $0.kind != "conflict" })
            }
            #expect(fleet.text(0, "abandoned.part") == "\n", "it stays where it is")
            try fleet.shell(0, "rm abandoned.part")
            try fleet.join()
            try fleet.expectSound()
        }
    }

    @Test("5: a file renamed right after its close is complete") func renamed() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p a b/c
                python3 -c '
                import os
                for i in range(30):
                    size = 3000000 if i % 10 == 0 else 1000 * i
                    with open("a/%d" % i, "wb") as file: file.write(b"%02d" % i * (size // 2))
                    os.rename("a/%d" % i, "b/c/new %d" % i)
                    if i % 3 == 0: os.rename("b/c/new %d" % i, "b/new %d" % i)
                '
                """)
            try Programs.fsctl("wait", "--durable", "hub", fleet.devices[0].path).succeed()
            // The device's own cache must not stand in for the hub.
            try fleet.devices[0].unmount()
            let fresh = try fleet.join()
            try fleet.settle([1, 2])
            for number in 0..<30 {
                let size = number % 10 == 0 ? 3_000_000 : 1000 * number
                let place = number % 3 == 0 ? "b" : "b/c"
                let data = try Data(
                    contentsOf: URL(filePath: "\(fresh.path)/\(place)/new \(number)"))
                let text = String(format: "%02d", number)
                #expect(data == Data(String(repeating: text, count: size / 2).utf8), "\(number)")
            }
            #expect(try fleet.names(2, "a").isEmpty)
            try fleet.devices[0].mount()
            try fleet.expectSound()
        }
    }

    @Test("6: a file replaced by a longer one has its new size at once") func replaced() throws {
        try Fleet.with(2) { fleet in
            // git's index relies on this.
            let script = """
                import os
                for i in range(100):
                    with open("T", "w") as file: file.write("foo\\n")
                    assert os.stat("T").st_size == 4
                    with open("T.new", "w") as file: file.write("longer %d\\n" % i)
                    os.rename("T.new", "T")
                    text = "longer %d\\n" % i
                    assert os.stat("T").st_size == len(text), i
                    assert open("T").read() == text, i
                """
            try fleet.shell(0, "python3 -c '\(script)'")
            for round in 0..<5 {
                let text = String(repeating: "x", count: 5 + 7 * round)
                try fleet.shell(0, "echo \(text) > T.new; mv T.new T")
                let path = "\(fleet.devices[1].path)/T"
                try wait(seconds: 20, for: "round \(round)") { () -> Bool? in
                    var status = stat()
                    guard stat(path, &status) == 0 else { return nil }
                    // The new size never appears with the old contents, nor the other way round.
                    let read = fleet.text(1, "T") ?? ""
                    return status.st_size == text.utf8.count + 1 && read == text + "\n" ? true : nil
                }
            }
            try fleet.shell(
                0,
                """
                git init -q r; cd r; git config user.email a@b; git config user.name a
                for i in 1 2 3 4 5; do echo $i > f; git add f; git commit -qm $i; done
                """)
            try fleet.expectSound()
            for index in 0..<2 {
                try fleet.shell(
                    index, "cd r; git fsck --strict; [ -z \"$(git status --porcelain)\" ]")
            }
        }
    }

    @Test("8: a document is evicted while it is being saved") func evicted() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 0 > inplace; echo 0 > replaced")
            try fleet.expectEqual()
            var evicted = 0
            for round in 1...20 {
                let index = round % 2
                let path = fleet.devices[index].path
                let text = String(repeating: "\(round) ", count: round % 4 == 3 ? 200_000 : 10)
                try fleet.put(index, "inplace", text)
                try fleet.put(index, "replaced.tmp", text)
                try fleet.shell(index, "mv replaced.tmp replaced")
                // Every other time the save is at the hub, or about to be.
                if round % 4 == 0 {
                    try Programs.fsctl("wait", "--durable", "hub", path).succeed()
                }
                for name in ["inplace", "replaced"] {
                    let result = try Programs.fsctl("evict", "\(path)/\(name)").run()
                    if result.output.hasPrefix("1 document") { evicted += 1 }
                    #expect(fleet.text(index, name) == text, "\(name) in round \(round)")
                }
                if round % 5 == 0 { try fleet.settle() }
            }
            #expect(evicted > 0)
            try fleet.join()
            try fleet.expectSound()
        }
    }
}

/// A program that reads a file to its end.
final class Reading {
    private let child: ChildProcess

    init(_ path: String, to output: String = "/dev/null") throws {
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        let output = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        defer {
            close(null)
            close(output)
        }
        child = try ChildProcess("cat", [path], input: null, output: output, errors: null)
    }

    deinit { child.killGroup() }

    var pid: pid_t { child.pid }
    var hasEnded: Bool { child.hasEnded() }
    func send(_ signal: Int32) { child.send(signal) }
    func waitForEnd() throws -> Int32 { try child.waitForEnd(seconds: 40) }

    /// Returns when the kernel makes the program wait for the mount's daemon.
    func waitUntilItWaits() throws {
        try wait(for: "cat to wait") {
            let place = try? String(contentsOfFile: "/proc/\(pid)/wchan", encoding: .utf8)
            return ["request_wait_answer", "folio_wait_bit_common"].contains(place) ? true : nil
        }
    }
}

extension Fleet {
    /// Checks that all devices are equal, and that neither a device nor the hub finds a fault. The
    /// hub is checked once more when the fleet ends.
    func expectSound() throws {
        try expectEqual()
        for device in devices {
            var command = Programs.fsctl("doctor", "--no-repair", device.path)
            command.timeoutSeconds = 120
            let said = try command.succeed()
            guard said.contains("the same here and at the hub") else {
                throw SupportError("the doctor did not compare with the hub: \(said)")
            }
        }
        try hub.check()
    }
}
