import Foundation
import Support
import Testing

/// Programs as people run them, on a real mount.
@Suite("programs on the mount", .serialized)
struct ProgramTests {
    @Test("ten saves by an editor are ten versions of one document", arguments: Editor.allCases)
    func tenSaves(_ editor: Editor) throws {
        try MountedVolume.with { volume in
            let file = "\(volume.path)/letter.txt"
            try Data("The first line.\n".utf8).write(to: URL(filePath: file), options: [])
            let first = try History.of(file)
            let text = try editor.save(file, times: 9)
            #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
            let history = try History.of(file)
            #expect(history.id == first.id)
            #expect(history.versions.map(\.number) == Array(1...10))
            #expect(history.versions.filter { $0.kind == "current" }.map(\.number) == [10])
            let programs = Set(history.versions.dropFirst().map(\.program))
            #expect(programs == [editor.rawValue])
            for version in history.versions {
                let kept = "\(volume.path)/.versions/letter.txt/\(version.fileName)"
                let content = try String(contentsOfFile: kept, encoding: .utf8)
                #expect(text.hasPrefix(content) && content.utf8.count == version.size)
            }
        }
    }

    @Test("ten saves by sed -i, cp over, and rsync are ten versions each")
    func tools() throws {
        try MountedVolume.with { volume in
            for name in ["sed", "cp", "rsync", "tee"] {
                let file = "\(volume.path)/\(name).txt"
                let outside = try TemporaryDirectory()
                try "number 0\n".write(toFile: file, atomically: false, encoding: .utf8)
                let first = try History.of(file)
                for number in 1...9 {
                    let source = try outside.write("number \(number)\n", to: "source\(number)")
                    switch name {
                    case "sed":
                        try Command("sed", "-i", "s/[0-9]/\(number)/", file).succeed()
                    case "cp": try Command("cp", source, file).succeed()
                    case "rsync": try Command("rsync", "-I", source, file).succeed()
                    default:
                        try Command("sh", "-c", "tee '\(file)' < '\(source)'").succeed()
                    }
                }
                let history = try History.of(file)
                #expect(history.id == first.id, "\(name)")
                #expect(history.versions.count == 10, "\(name)")
                #expect(try String(contentsOfFile: file, encoding: .utf8) == "number 9\n")
            }
        }
    }

    @Test("git clones, commits, collects garbage and finds everything intact")
    func git() throws {
        try MountedVolume.with { volume in
            let script = """
                set -eu
                export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
                export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
                git init -q origin && cd origin
                for i in $(seq 60); do mkdir -p d$((i % 7)); seq $i 400 > d$((i % 7))/f$i; done
                git add . && git commit -qm one
                for i in $(seq 1 3 60); do echo $i >> d$((i % 7))/f$i; done
                git commit -qam two && cd ..
                git clone -q --no-hardlinks origin copy && cd copy
                git checkout -q HEAD~1 && git checkout -q - && git gc -q --aggressive --prune=now
                test -z "$(git status --porcelain)"
                git fsck --strict --no-progress && cd .. && diff -r --exclude .git origin copy
                """
            var command = Command("sh", "-c", script)
            command.directory = volume.path
            try command.succeed()
        }
    }

    @Test("cp -a and tar copy everything there and back")
    func copies() throws {
        try MountedVolume.with { volume in
            let outside = try TemporaryDirectory()
            let script = """
                set -eu
                mkdir -p a/b && cd a
                echo text > b/file && ln -s b/file link && ln b/file hard && mkfifo pipe
                chmod 640 b/file && touch -d '2001-02-03 04:05:06.789' b/file
                setfattr -n user.colour -v blue b/file && truncate -s 1M sparse
                cd .. && cp -a a '\(volume.path)/a'
                tar --xattrs -C '\(volume.path)' -cf t.tar a
                mkdir back && tar --xattrs -C back -xf t.tar
                list() {
                    (cd "$1" && find . ! -type d -printf '%P %y %m %s %n %l %T@\\n' | sort)
                }
                list a > one && list '\(volume.path)/a' > two && list back/a > three
                diff one two && diff one three
                getfattr --only-values -n user.colour '\(volume.path)/a/b/file' | grep -q blue
                getfattr --only-values -n user.colour back/a/b/file | grep -q blue
                test "$(stat -c %b '\(volume.path)/a/sparse')" = 0
                """
            var command = Command("bash", "-c", script)
            command.directory = outside.path
            try command.succeed()
        }
    }

    @Test("two processes write one SQLite database in WAL mode at once")
    func sqlite() throws {
        try MountedVolume.with { volume in
            let file = "\(volume.path)/data.db"
            try Command(
                "sqlite3", file, "PRAGMA journal_mode=WAL; CREATE TABLE t (who TEXT, n INTEGER);"
            ).succeed()
            let script = """
                for i in $(seq 200); do
                    echo ".timeout 20000"; echo "INSERT INTO t VALUES ('$1', $i);"
                done | sqlite3 "$2"
                """
            let pair = """
                sh -c "$1" - a "$2" & first=$!
                sh -c "$1" - b "$2" && wait $first
                """
            try Command("sh", "-c", pair, "-", script, file).succeed()
            let count = try Command(
                "sqlite3", file,
                "SELECT count(*), count(DISTINCT who) FROM t; PRAGMA integrity_check;"
            ).succeed()
            #expect(count == "400|2\nok\n")
            try Programs.fsctl("wait", "--durable", "disk", file).succeed()
            #expect(try History.of(file).versions.count >= 1)
        }
    }
}
