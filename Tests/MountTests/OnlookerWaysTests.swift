import Foundation
import Glibc
import Support
import Testing

/// What another user learns about documents that are not theirs, by every way to look at a volume
/// that root has mounted for all. `Tests/Onlooker/probe.py` tries them all, and even knows the
/// paths and ids of the documents.
@Suite(
    "Every way to look at another user's documents",
    .enabled(if: geteuid() == 0, "acting as other users takes root"))
struct OnlookerWaysTests {
    /// A row: what Anna (1001) does with a document or directory, in three stages. Bert (1002) has
    /// no right to it. Its secrets are names and contents with the row's name in them, and sizes.
    private struct Row {
        let name: String
        /// The number from which its sizes are counted.
        let sizes: Int
        /// Before the first time, between both times, and after the second one.
        let stages: [String]
        /// The paths that Bert guesses.
        let paths: [String]
        /// The ways by which Anna herself finds a name, a content or a size of it. If she did not,
        /// it would mean nothing that Bert does not.
        let ways: Set<String>
    }

    private static let files: Set = ["versions", "past", "rewind", "show", "socket"]

    private static let rows = [
        Row(
            name: "directory", sizes: 730_100,
            stages: ["save closed/NAME 1", "save closed/NAME 2", "save closed/NAME 3"],
            paths: ["closed/NAME"], ways: files.union(["watch"])),
        Row(
            name: "file", sizes: 730_200,
            stages: ["save open/file 1", "save open/file 2", ""], paths: ["open/file"],
            ways: ["versions", "past", "show", "socket"]),
        Row(
            name: "package", sizes: 730_300,
            stages: [
                "own open/p.rtfd; save open/p.rtfd/NAME 1", "save open/p.rtfd/NAME 2", "",
            ], paths: ["open/p.rtfd", "open/p.rtfd/NAME"],
            ways: ["versions", "past", "show", "socket"]),
        Row(
            name: "deleted-file", sizes: 730_400,
            stages: ["save closed/NAME 1", "rm closed/NAME", ""], paths: ["closed/NAME"],
            ways: ["versions", "past", "rewind", "socket", "watch"]),
        Row(
            name: "deleted-in-open", sizes: 730_500,
            stages: ["save open/gone 1", "rm open/gone", ""], paths: ["open/gone"],
            ways: ["versions", "past", "socket"]),
        Row(
            name: "deleted-package", sizes: 730_600,
            stages: [
                "own open/q.rtfd; save open/q.rtfd/NAME 1", "rm -r open/q.rtfd", "",
            ], paths: ["open/q.rtfd", "open/q.rtfd/NAME"], ways: ["versions", "past", "socket"]),
        Row(
            name: "deleted-directory", sizes: 730_700,
            stages: ["own open/dir; save open/dir/NAME 1", "rm -r open/dir", ""],
            paths: ["open/dir", "open/dir/NAME"],
            // Only root sees past contents of a directory that is gone.
            ways: ["socket", "watch"]),
        Row(
            name: "moved-out", sizes: 730_800,
            stages: ["save closed/NAME 1", "mv closed/NAME open/came; save open/came 2", ""],
            paths: ["closed/NAME", "open/came"],
            ways: ["versions", "past", "rewind", "show", "socket", "watch"]),
        Row(
            name: "moved-in", sizes: 730_900,
            stages: ["save open/left 1", "mv open/left closed/NAME; save closed/NAME 2", ""],
            paths: ["open/left", "closed/NAME"], ways: files.union(["watch"])),
        Row(
            name: "moved-package", sizes: 731_000,
            stages: [
                "own open/r.rtfd; save open/r.rtfd/NAME 1",
                "mv open/r.rtfd open/s.rtfd; save open/s.rtfd/NAME 2", "",
            ], paths: ["open/r.rtfd", "open/s.rtfd", "open/s.rtfd/NAME"],
            ways: ["versions", "past", "show", "socket"]),
        Row(
            name: "moved-directory", sizes: 731_100,
            stages: [
                "own open/one; save open/one/NAME 1", "mv open/one open/two",
                "save open/two/NAME 2",
            ], paths: ["open/one", "open/one/NAME", "open/two/NAME"], ways: files.union(["watch"])),
        Row(
            name: "replaced", sizes: 731_200,
            stages: [
                "save open/given 1",
                "as 1002 sh -c 'echo mine > open/mine; cp open/mine open/n; mv open/n open/given'",
                "",
            ], paths: ["open/given"], ways: ["versions", "past", "show", "socket"]),
        Row(
            name: "opened", sizes: 731_300,
            stages: [
                """
                own was; save was/NAME 1; save was/kept 2
                chmod 644 was/kept; saved; rm was/NAME
                """, "echo public | as 1001 tee was/kept >/dev/null; saved; chmod 755 was", "",
            ], paths: ["was/NAME", "was/kept"],
            ways: ["versions", "past", "rewind", "show", "socket", "watch"]),
        Row(
            name: "conflict", sizes: 731_400,
            stages: [
                "conflict closed/NAME", "conflict open/conflict; chmod 600 open/conflict", "",
            ], paths: ["closed/NAME", "open/conflict"],
            // It has not changed since the times to which it is rewound.
            ways: files.union(["conflicts-directory", "conflicts", "watch"])
                .subtracting(["rewind"])),
    ]

    private func script(_ volume: MountedVolume, _ text: String) throws -> String {
        let probe = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Onlooker/probe.py").path
        var command = Command(
            "/bin/bash", "-ec",
            """
            PATH='\(Programs.directory):/usr/bin:/bin'
            # Others come as far as the volume.
            chmod 711 ..
            as() {
                local user=$1; shift
                setpriv --reuid=$user --regid=$user --clear-groups "$@"
            }
            saved() { fsctl wait --durable disk .; }
            # PATH NUMBER: Anna saves a private file; its size is a secret, too.
            save() {
                as 1001 bash -c 'umask 077; echo "zqb-$2-$3" > "$1"
                    truncate -s $(($4 + $3)) "$1"' - "$1" $ROW "$2" $SIZES
                saved
            }
            # Anna's private directory.
            own() { mkdir -m 700 $1; chown 1001:1001 $1; }
            conflict() {
                save $1 1
                exec 3>>$1; as 1001 sh -c "umask 077; echo other > closed/n; mv closed/n $1"
                echo zqb-$ROW-late >&3; exec 3>&-; saved
            }
            cp '\(probe)' ../probe.py; chmod 644 ../probe.py
            look() { as $1 python3 -B ../probe.py "${@:2}"; }
            \(text)
            """)
        command.directory = volume.path
        command.timeoutSeconds = 900
        return try command.succeed()
    }

    /// Does one stage of all rows.
    private func stage(_ number: Int) -> String {
        Self.rows.map { row in
            """
            ROW=\(row.name); SIZES=\(row.sizes)
            \(row.stages[number].replacing("NAME", with: "zqn-\(row.name)"))
            saved

            """
        }.joined()
    }

    /// The rows of which a way has told something.
    private func told(_ text: String) -> [String: Set<String>] {
        var told: [String: Set<String>] = [:]
        for line in text.split(separator: "\n") {
            let way = String(line.prefix { $0 != " " })
            for row in Self.rows {
                let isNamed = ["zqn-\(row.name)", "zqb-\(row.name)"].contains { line.contains($0) }
                let hasSize = (1...3).contains { line.contains("\(row.sizes + $0)") }
                if isNamed || hasSize { told[row.name, default: []].insert(way) }
            }
        }
        return told
    }

    @Test("tells another user nothing, and the owner everything") func ways() throws {
        try MountedVolume.with(options: ["list_conflicts"]) { volume in
            let heard = volume.store + ".heard"
            defer { for user in [1001, 1002] { unlink("\(heard).\(user)") } }
            let paths = Self.rows.flatMap { row in
                row.paths.map { $0.replacing("NAME", with: "zqn-\(row.name)") }
            }
            let list = paths.map { "\"\($0)\"" }.joined(separator: ",")
            let said = try script(
                volume,
                """
                chmod 755 .; mkdir -m 777 open; mkdir -m 700 closed; chown 1001 closed; saved
                for user in 1001 1002; do
                    setpriv --reuid=$user --regid=$user --clear-groups fsctl watch . \\
                        > \(heard).$user 2>&1 &
                    watchers="$watchers $!"
                done
                for user in 1001 1002; do
                    for i in $(seq 600); do
                        echo x >> open/beat
                        grep -q open/beat \(heard).$user && break; sleep 0.05
                    done
                done
                \(stage(0))
                sleep 1; first=$(date '+%Y-%m-%dT%H:%M:%S'); sleep 1
                \(stage(1))
                sleep 1; second=$(date '+%Y-%m-%dT%H:%M:%S'); sleep 1
                \(stage(2))
                echo x > open/last
                for user in 1001 1002; do
                    for i in $(seq 600); do
                        grep -q open/last \(heard).$user && break; sleep 0.05
                    done
                done
                kill $watchers; wait $watchers || true
                ids=$(sqlite3 '\(volume.store)/journal.sqlite' 'SELECT lower(hex(id)) FROM items' \\
                    | sed 's/.*/"&"/' | paste -sd,)
                echo "{\\"paths\\": [\(list.replacing("\"", with: "\\\""))]," \\
                    "\\"ids\\": [${ids}]}" > ../secrets.json
                chmod 644 ../secrets.json
                for user in 1002 1001; do
                    echo "user $user"
                    sed 's/^/watch /' \(heard).$user
                    look $user ../secrets.json "$first" "$second"
                done
                rm -f ../secrets.json ../probe.py
                """)
            let parts = said.split(separator: "user 1001\n", maxSplits: 1).map(String.init)
            let (other, owner) = (told(parts[0]), told(parts.last ?? ""))
            for row in Self.rows {
                #expect(other[row.name] ?? [] == [], "\(row.name)")
                #expect(row.ways.subtracting(owner[row.name] ?? []) == [], "\(row.name)")
            }
        }
    }
}
