import CLinux
import Foundation
import Glibc
import Journal
import Model
import Support
import SystemCalls
import Testing
import Volume

/// `.versions`, which exists in every directory and is never listed.
@Suite("The hidden version directories")
struct VersionDirectoryTests {
    private func shell(_ script: String, in volume: MountedVolume) throws -> String {
        var command = Command("bash", "-ec", script)
        command.directory = volume.path
        return try command.succeed()
    }

    /// Saves `letter.txt` three times in a directory of its own.
    private func letters(in volume: MountedVolume) throws {
        _ = try shell(
            """
            mkdir d; echo one > d/letter.txt; echo two.. > d/letter.txt
            echo three > d/new; mv d/new d/letter.txt
            """, in: volume)
        try volume.waitForDisk()
    }

    @Test("it is found by its exact name in every directory, and never listed")
    func names() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            for directory in ["", "d/"] {
                #expect(access("\(volume.path)/\(directory).versions", F_OK) == 0)
                #expect(access("\(volume.path)/\(directory).conflicts", F_OK) == 0)
                for name in [".Versions", ".VERSIONS", ".version", ".versions ", ".conflict"] {
                    #expect(access("\(volume.path)/\(directory)\(name)", F_OK) != 0, "\(name)")
                }
                #expect(access("\(volume.path)/\(directory).versions/.versions", F_OK) != 0)
                #expect(access("\(volume.path)/\(directory).versions/absent", F_OK) != 0)
                // There is no conflict.
                #expect(access("\(volume.path)/\(directory).conflicts/letter.txt", F_OK) != 0)
            }
            #expect(access("\(volume.path)/d/.versions/letter.txt/letter.txt", F_OK) != 0)
            #expect(access("\(volume.path)/.versions/letter.txt", F_OK) != 0)
            #expect(
                try shell("ls -aR; find . -name '.v*'", in: volume).contains(".versions") == false)
            let outside = try FileStatus(of: "\(volume.path)/d")
            let inside = try FileStatus(of: "\(volume.path)/d/.versions")
            #expect(inside.inode >= 1 << 62 && outside.inode < 1 << 62)
            #expect(inside.device == outside.device)
            #expect(
                try shell("cd d/.versions/letter.txt; /bin/pwd", in: volume).contains(
                    "/d/.versions/letter.txt"))
        }
    }

    @Test("a version that is open, or was read before hundreds of others, has not changed")
    func manyLookedAt() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            _ = try shell("for n in {1..300}; do echo $n > $n; done", in: volume)
            try volume.waitForDisk()
            // Opens the version before all others and reads it after them.
            let read = try shell(
                """
                first=(d/.versions/letter.txt/*)
                exec 3< "${first[0]}"
                cd d/.versions/letter.txt
                cat ../../../.versions/{1..300}/* | sort -n | tail -1
                cat <&3
                cat * | wc -l
                """, in: volume)
            #expect(read == "300\none\n3\n")
            let listing = try #require(opendir("\(volume.path)/d/.versions/letter.txt"))
            _ = try shell("cat .versions/{1..300}/* > /dev/null", in: volume)
            var count = 0
            while readdir(listing) != nil { count += 1 }
            closedir(listing)
            #expect(count == 5)
        }
    }

    @Test("tar, cp, rsync, find and du do not enter it")
    func wanderers() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            let outside = try TemporaryDirectory()
            let said = try shell(
                """
                list() { (cd "$1" && find . | sort); }
                tar -cf '\(outside.path)/t.tar' . && mkdir '\(outside.path)/tar' \
                    && tar -xf '\(outside.path)/t.tar' -C '\(outside.path)/tar'
                cp -a . '\(outside.path)/cp'; rsync -aX . '\(outside.path)/rsync'
                for copy in tar cp rsync; do list '\(outside.path)'/$copy; done
                cd '\(outside.path)' && getfattr -R -m - cp rsync
                """, in: volume)
            #expect(said == String(repeating: ".\n./d\n./d/letter.txt\n", count: 3))
        }
    }

    @Test("nothing can be created, changed or removed in it: EROFS")
    func readOnly() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            let hidden = "\(volume.path)/d/.versions"
            let document = "\(hidden)/letter.txt"
            let plain = "\(volume.path)/d/letter.txt"
            let first = try #require(try History.of(plain).versions.first)
            let version = "\(document)/\(first.fileName)"
            let attempts: [(String, () throws(Errno) -> Void)] = [
                (
                    "create",
                    { () throws(Errno) in _ = try OpenFile(hidden + "/new", O_CREAT | O_WRONLY) }
                ),
                (
                    "create below",
                    { () throws(Errno) in _ = try OpenFile(document + "/new", O_CREAT | O_RDWR) }
                ),
                ("write", { () throws(Errno) in _ = try OpenFile(version, O_WRONLY) }),
                (
                    "truncating open",
                    { () throws(Errno) in _ = try OpenFile(version, O_RDONLY | O_TRUNC) }
                ),
                ("truncate", { () throws(Errno) in try call(truncate(version, 0)) }),
                ("unlink", { () throws(Errno) in try call(unlink(version)) }),
                ("rmdir", { () throws(Errno) in try call(rmdir(document)) }),
                ("rmdir all", { () throws(Errno) in try call(rmdir(hidden)) }),
                ("mkdir", { () throws(Errno) in try call(mkdir(hidden + "/new", 0o755)) }),
                ("symlink", { () throws(Errno) in try call(symlink("x", document + "/new")) }),
                ("link in", { () throws(Errno) in try call(link(plain, document + "/new")) }),
                (
                    "rename within",
                    { () throws(Errno) in try call(rename(version, document + "/new")) }
                ),
                (
                    "rename out",
                    { () throws(Errno) in try call(rename(version, volume.path + "/out")) }
                ),
                ("rename in", { () throws(Errno) in try call(rename(plain, document + "/new")) }),
                (
                    "rename it",
                    { () throws(Errno) in try call(rename(hidden, volume.path + "/out")) }
                ),
                ("chmod", { () throws(Errno) in try call(chmod(version, 0o600)) }),
                ("chown", { () throws(Errno) in try call(chown(version, 1, 1)) }),
                ("utimes", { () throws(Errno) in try call(utimensat(AT_FDCWD, version, nil, 0)) }),
                ("mknod", { () throws(Errno) in try call(mkfifo(document + "/new", 0o600)) }),
            ]
            for (name, attempt) in attempts { #expect(refusal(attempt) == .readOnly, "\(name)") }
            let file = try OpenFile(version, O_RDONLY)
            #expect(cl_setxattr_fd(file.descriptor, "user.x", "y", 1, 0) == -EROFS)
            #expect(mkdir(volume.path + "/.versions", 0o755) == -1 && errno == EEXIST)
            let replacing = refusal { () throws(Errno) in try call(rename(plain, hidden)) }
            #expect(replacing == .readOnly || replacing == Errno(EISDIR))
            #expect(try History.of(plain).versions.count == 3)
        }
    }

    @Test("contents, sizes, times and order are those of the versions")
    func contents() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            let directory = "\(volume.path)/d/.versions/letter.txt"
            let history = try History.of("\(volume.path)/d/letter.txt")
            let names = try FileManager.default.contentsOfDirectory(atPath: directory)
            #expect(names.sorted() == history.versions.map(\.fileName))
            #expect(names.allSatisfy { $0.hasSuffix(".txt") })
            let texts = ["one\n", "two..\n", "three\n"]
            for (version, text) in zip(history.versions, texts) {
                let path = "\(directory)/\(version.fileName)"
                #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
                let found = try FileStatus(of: path)
                #expect(found.size == text.utf8.count && found.permissions & 0o222 == 0)
                #expect(found.links == 1 && found.inode >= 1 << 62)
            }
            _ = try shell(
                """
                echo old > d/a.swp; touch -d @1321009871.5 d/a.swp; cp -p d/a.swp d/dated.txt
                """, in: volume)
            let dated = try #require(try History.of("\(volume.path)/d/dated.txt").versions.first)
            let found = try FileStatus(of: "\(volume.path)/d/.versions/dated.txt/\(dated.fileName)")
            #expect(found.modified == 1_321_009_871_500_000_000)
            // FUSE_STATX, with an unknown birth time.
            let told = try shell(
                "cd d/.versions; stat -c '%s %Y %w' dated.txt/*; stat .", in: volume)
            #expect(told.hasPrefix("4 1321009871 -\n"))

            // A handle and a working directory in it stay valid while versions are added.
            let held = try OpenFile("\(directory)/\(history.versions[0].fileName)", O_RDONLY)
            let said = try shell(
                """
                cd d/.versions/letter.txt; ls | wc -l
                echo four > ../../letter.txt; ls | wc -l; ls | tail -1 | xargs -d '\\n' cat
                """, in: volume)
            #expect(said == "3\n4\nfour\n")
            #expect(try held.text() == "one\n")
        }
    }

    @Test("versions of a deleted document stay, and those of a renamed one follow it")
    func deleted() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            _ = try shell(
                "mv d/letter.txt d/moved.txt; echo gone > d/gone.md; rm d/gone.md", in: volume)
            #expect(
                try shell("ls d/.versions/moved.txt | wc -l; cat d/.versions/gone.md/*", in: volume)
                    == "3\ngone\n")
            #expect(access("\(volume.path)/d/.versions/letter.txt", F_OK) != 0)
            _ = try shell("echo other > d/gone.md", in: volume)
            let again = try shell("cat d/.versions/gone.md/*", in: volume)
            #expect(again.hasSuffix("other\n"))
            _ = try shell("rm -r d", in: volume)
            #expect(access("\(volume.path)/d/.versions", F_OK) != 0)
        }
    }

    @Test("a version of impossible size is shown, and the daemon goes on")
    func impossibleSizes() throws {
        try ApplierStage.with { stage in
            try stage.write("mine", to: "f")
            var item = try #require(try stage.item("f"))
            for size: UInt64 in [.max, 1 << 63, (1 << 63) - 1] {
                let manifest = Manifest(entries: [.init(size: size)])
                item.latest += 1
                let version = Version(
                    number: item.latest, kind: .history, device: .random(), deviceName: "other",
                    person: "ann", program: "cp", name: Name("f"), size: size, modified: 1,
                    saved: 1, content: .sha256(manifest.contentForm), durability: .hub)
                let row = item
                try stage.volume.recorder.perform { _, t in
                    try t.insert(version, of: row.key, manifest: manifest.encoded)
                    try t.update(row)
                }
            }
            let directory = stage.path + "/.versions/f"
            let names = try FileManager.default.contentsOfDirectory(atPath: directory)
            let sizes = names.map { name -> Int in
                var status = stat()
                return stat(directory + "/" + name, &status) == 0 ? status.st_size : -1
            }
            #expect(sizes.sorted() == [4, .max, .max, .max])
        }
    }

    @Test("a package's versions are complete read-only directories")
    func packages() throws {
        try MountedVolume.with { volume in
            _ = try shell(
                """
                mkdir -p Talk.key/Data; echo slide > Talk.key/index
                echo picture > Talk.key/Data/1.jpg
                ln -s Data/1.jpg Talk.key/link; chmod 755 Talk.key/index
                """, in: volume)
            try volume.waitForDisk()
            _ = try shell("echo changed > Talk.key/index; rm Talk.key/Data/1.jpg", in: volume)
            try volume.waitForDisk()
            let said = try shell(
                """
                cd .versions/Talk.key; ls | wc -l; first=$(ls | head -1); last=$(ls | tail -1)
                cat "$first/index" "$first/Data/1.jpg" "$first/link" "$last/index"
                ls "$last/Data" | wc -l
                stat -c %A "$first/index"; cd "$first"; find . | sort
                touch new 2>&1 | grep -o 'Read-only'; rm -f index 2>&1 | grep -o 'Read-only'
                """, in: volume)
            #expect(
                said == """
                    2
                    slide
                    picture
                    picture
                    changed
                    0
                    -r-xr-xr-x
                    .
                    ./Data
                    ./Data/1.jpg
                    ./index
                    ./link
                    Read-only
                    Read-only

                    """)
        }
    }

    @Test("attributes describe a document by name; they are not listed, set or copied")
    func attributes() throws {
        try MountedVolume.with { volume in
            try letters(in: volume)
            let history = try History.of("\(volume.path)/d/letter.txt")
            let said = try shell(
                """
                cd d
                for name in id version state durability conflicts; do
                    getfattr --only-values -n user.concord.$name letter.txt; echo
                done
                getfattr -d -m - letter.txt; cp -a letter.txt copy; getfattr -d -m - copy
                for name in id version state socket; do
                    setfattr -n user.concord.$name -v x letter.txt 2>&1 | grep -o 'not permitted'
                    setfattr -x user.concord.$name letter.txt 2>&1 | grep -o 'not permitted'
                done
                setfattr -n user.own -v mine letter.txt
                getfattr --only-values -n user.own letter.txt; echo
                getfattr -n user.concord.nothing letter.txt 2>&1 | grep -o 'No such attribute'
                getfattr --only-values -n user.concord.version copy; echo
                getfattr -n user.concord.socket letter.txt 2>&1 | grep -o 'No such attribute'
                """, in: volume)
            let refusals = Array(repeating: "not permitted", count: 8)
            let expected =
                [history.id, "3", "current", "disk", "0"] + refusals
                + ["mine", "No such attribute", "1", "No such attribute"]
            #expect(said.split(separator: "\n").map(String.init) == expected)
        }
    }
}
