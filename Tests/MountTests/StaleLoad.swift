import Foundation
import Support
import Testing

/// Twenty plain programs that save one document one after the other, in all the ways in which
/// programs replace a document. A lock outside the volume keeps each read and its save together.
struct StaleLoad {
    var programs = 20
    let rounds: Int
    /// Whether each program reads before each save, or only once at the beginning.
    let reads: Bool
    let seed: UInt64

    private static let script = """
        import fcntl, os, random, sys
        path, home, count, rounds, reads, seed = sys.argv[1:]
        log = open(home + "/log", "a")
        ready, go = os.pipe(), os.pipe()
        def put(name, text, flags):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o644)
            os.write(file, text.encode())
            os.close(file)
        def save(way, text, me):
            draft = path + ".%d" % me
            if way == 0: put(path, text, os.O_TRUNC)
            if way == 1:
                put(draft, text, os.O_TRUNC)
                os.rename(draft, path)
            if way == 2:
                os.rename(path, path + "~")
                put(path, text, os.O_EXCL)
                os.unlink(path + "~")
            if way == 3:
                os.unlink(path)
                put(path, text, os.O_EXCL)
            if way == 4:
                os.truncate(path, 0)
                put(path, text, 0)
        def program(me):
            dice = random.Random(int(seed) * 1000 + me)
            open(path).read()
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            lock = open(home + "/lock", "w")
            for round in range(int(rounds)):
                fcntl.flock(lock, fcntl.LOCK_EX)
                if reads == "1": open(path).read()
                text = "program %d round %d\\n" % (me, round) * dice.randint(1, 50)
                save(dice.randrange(5), text, me)
                log.write("%d %d %d\\n" % (me, round, len(text)))
                log.flush()
                fcntl.flock(lock, fcntl.LOCK_UN)
        children = []
        for me in range(int(count)):
            child = os.fork()
            if child == 0:
                try:
                    program(me)
                except BaseException as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(child)
        for child in children: os.read(ready[0], 1)
        os.write(go[1], b"x" * len(children))
        sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
        """

    func run() throws {
        let home = try TemporaryDirectory("load")
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a.txt"
            try Data("old\n".utf8).write(to: URL(filePath: path))
            try volume.waitForDisk()
            let numbers = ["\(programs)", "\(rounds)", reads ? "1" : "0", "\(seed % 1_000_000)"]
            try Command(
                "python3", arguments: ["-c", Self.script, path, home.path] + numbers
            ).succeed()
            // Thousands of saves are recorded later than a question about versions waits for them.
            try wait(seconds: 600, for: "the recorder") {
                let status = try Programs.fsctl("versions", path, "--json").run().status
                return status == 10 ? nil : true
            }
            let hidden = "\(volume.path)/.versions/a.txt"
            let conflicts = try History.of(path).versions.filter { $0.kind == "conflict" }
                .map { try String(contentsOfFile: "\(hidden)/\($0.fileName)", encoding: .utf8) }
                .map { $0.prefix { $0 != "\n" } }.sorted()
            let saves = try String(contentsOfFile: "\(home.path)/log", encoding: .utf8)
                .split(separator: "\n").map { $0.split(separator: " ") }
            #expect(saves.count == programs * rounds)
            // If the programs do not read before saving: each save that another program has
            // overwritten.
            let overwritten = zip(saves, saves.dropFirst()).filter { $0[0] != $1[0] }
                .map { "program \($0.0[0]) round \($0.0[1])" }.sorted()
            let expected = reads ? [] : overwritten
            #expect(conflicts.map(String.init) == expected, "seed \(seed)")
        }
    }
}
