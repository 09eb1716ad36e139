import Foundation
import Glibc
import Support
import Testing

extension TrapTests {
    @Test("12: a folder is renamed while files are put into it") func renamedFolder() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir -p d/below e; echo 0 > d/below/0")
            try fleet.expectEqual()
            var command = Command(
                "/bin/bash", "-ec",
                """
                cd d/below
                for i in {1..60}; do
                    if [ $((i % 10)) = 0 ]; then head -c 1500000 /dev/urandom > $i
                    else echo $i > $i; fi
                    sleep 0.02
                done
                """)
            command.directory = fleet.devices[0].path
            let writing = command
            let writer = Thread { _ = try? writing.run() }
            writer.start()
            // The other device renames a directory above and one below while the files are being
            // sent.
            try wait(for: "the first") { fleet.text(1, "d/below/3") == "3\n" ? true : nil }
            try fleet.shell(1, "mv d e/d2")
            try wait(for: "some more") { fleet.text(1, "e/d2/below/21") == "21\n" ? true : nil }
            try fleet.shell(1, "mv e/d2/below top")
            try wait(seconds: 60, for: "the writer") { writer.isFinished ? true : nil }
            // The device that creates the files renames their directory.
            try fleet.shell(0, "mkdir n; for i in {1..60}; do echo $i > n/$i; done; mv n e/n2")
            try fleet.expectEqual()
            try fleet.join()
            try fleet.expectSound()
            for index in 0..<3 {
                try fleet.shell(
                    index,
                    """
                    [ $(ls | wc -l) = 2 ]; [ $(ls top | wc -l) = 61 ]; [ $(ls e/n2 | wc -l) = 60 ]
                    [ $(ls e | wc -l) = 2 ]; [ -z "$(ls e/d2)" ]
                    for i in {1..60}; do
                        grep -qx $i e/n2/$i
                        if [ $((i % 10)) = 0 ]; then [ $(stat -c %s top/$i) = 1500000 ]
                        else grep -qx $i top/$i; fi
                    done
                    """)
            }
        }
    }

    /// What three devices do while they are offline. Afterwards each file must have exactly one
    /// name.
    struct Moves: CustomTestStringConvertible, Sendable {
        var title: String
        var before: String
        var on: [String]
        var files: [String]

        var testDescription: String { title }
    }

    static let moves = [
        Moves(
            title: "three folders in a circle",
            before: "mkdir a b c; for n in a b c; do echo $n > $n/f$n; done",
            on: ["mv a b/", "mv b c/", "mv c a/"], files: ["fa", "fb", "fc"]),
        Moves(
            title: "a parent below its child, in two ways",
            before: "mkdir -p p/q/r; echo p > p/fp; echo q > p/q/fq; echo r > p/q/r/fr",
            on: [
                "mv p/q/r r; mv p r/", "mv p/q q; mv p q/",
                "echo new > p/q/r/new; echo edited > p/fp",
            ], files: ["fp", "fq", "fr", "new"]),
        Moves(
            title: "two branches swap, and one of them goes",
            before: "mkdir -p x/1/2 y/3/4; echo 2 > x/1/2/f2; echo 4 > y/3/4/f4",
            on: [
                "mv x/1/2 y/3/; mv y/3/4 x/1/", "mv y x/1/; mv x/1/2 x/two",
                "mv x y/3/4/; echo n > y/3/n",
            ], files: ["f2", "f4", "n"]),
    ]

    @Test("14: cyclic moves and moves across ancestors", arguments: moves)
    func circles(_ moves: Moves) throws {
        try Fleet.with(3) { fleet in
            try fleet.shell(0, moves.before)
            try fleet.expectEqual()
            for index in 0..<3 { try fleet.offline(index) }
            for index in 0..<3 {
                try fleet.shell(index, moves.on[index])
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<3 { try fleet.online(index) }
            try fleet.expectSound()
            for index in 0..<3 {
                let found = try Command(
                    "find", fleet.devices[index].path, "-type", "f", "-printf", "%f\\n"
                )
                .succeed().split(separator: "\n").map(String.init).sorted()
                #expect(found == moves.files.sorted(), "device \(index)")
            }
        }
    }

    @Test("15: blocks that the hub already has do not shift other blocks") func known() throws {
        try Fleet.with(2) { fleet in
            let make = """
                import random
                random.seed(15)
                A, B, C = (random.randbytes(n) for n in (700001, 1300003, 900007))
                def put(name, *parts): open(name, "wb").write(b"".join(parts))
                """
            try fleet.shell(0, "python3 -c '\(make)\nput(\"one\", A, B, A)'")
            try fleet.settle()
            // The hub has all chunks of these files except C, many times and at other offsets.
            try fleet.shell(
                0,
                """
                python3 -c '\(make)
                put("two", A, A, A, C, B, A)
                put("three", B, b"x", A, B, bytes(3000000), A, C)
                put("one", A, b"inserted", B, A)
                '
                """)
            try fleet.settle()
            try fleet.join()
            try fleet.settle()
            // Each file is read first from the middle and then completely.
            let parts = [("two", 3_000_000), ("three", 5_500_000), ("one", 1_999_999)]
            for (name, offset) in parts {
                let paths = [0, 2].map { "\(fleet.devices[$0].path)/\(name)" }
                let middles = try paths.reversed().map {
                    let file = try OpenFile($0, O_RDONLY)
                    defer { file.close() }
                    return try file.bytes(10_000, at: offset)
                }
                #expect(middles[0] == middles[1], "\(name)")
                try Command("cmp", paths[0], paths[1]).succeed()
            }
            try fleet.expectSound()
        }
    }

    @Test("17: inode numbers are stable, and file handles are refused") func numbers() throws {
        try MountedVolume.with { volume in
            let script = """
                import ctypes, errno, os, sys
                def walk():
                    found = {}
                    for top, folders, files in os.walk("."):
                        for name in folders + files:
                            path = os.path.join(top, name)
                            found[path] = os.lstat(path).st_ino
                        with os.scandir(top) as entries:
                            for entry in entries:
                                assert entry.inode() == found[os.path.join(top, entry.name)]
                    return found
                if sys.argv[1] == "make":
                    for d in range(20):
                        os.mkdir("d%d" % d)
                        for i in range(1000): os.close(os.open("d%d/%d" % (d, i), os.O_CREAT))
                else:
                    old = eval(open(sys.argv[2]).read())
                    assert old == walk(), "other numbers"
                    os.rename("d7", "moved"); os.rename("d8/5", "moved/new")
                found = walk()
                assert len(set(found.values())) == len(found) == 20020
                if sys.argv[1] != "make":
                    assert found["./moved/new"] == old["./d8/5"]
                    assert found["./moved/9"] == old["./d7/9"]
                open(sys.argv[2], "w").write(repr(found))
                # An NFS server asks for these, and tells its administrator that there are none.
                libc = ctypes.CDLL(None, use_errno=True)
                handle = ctypes.create_string_buffer(8 + 128); handle[0] = b"\\x80"
                number = ctypes.c_int()
                assert libc.name_to_handle_at(-100, b"d1/1", handle, ctypes.byref(number), 0) < 0
                assert ctypes.get_errno() == errno.EOPNOTSUPP, ctypes.get_errno()
                """
            let home = try TemporaryDirectory("numbers")
            let program = try home.write(script, to: "walk.py")
            for step in ["make", "again"] {
                var command = Command("python3", program, step, "\(home.path)/found")
                command.directory = volume.path
                try command.succeed()
                try volume.remount()
            }
        }
    }
}
