import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Names, links and directories as on POSIX and Linux.
@Suite("POSIX: names")
struct PosixNameTests {
    @Test("a file without a name exists as long as it is open", arguments: DataPath.allCases)
    func orphans(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/orphan.txt"
            for isSaved in [false, true] {
                var file = try OpenFile.creating(path)
                try file.write("abc")
                if isSaved {
                    file.close()
                    file = try OpenFile(path, O_RDWR)
                }
                try call(unlink(path))
                try call(fchmod(file.descriptor, 0o640))
                try file.truncate(to: 2)
                try file.write("d", at: 2)
                try call(futimens(file.descriptor, [timespec(seconds: 1), timespec(seconds: 2)]))
                let found = try file.status()
                #expect(found.links == 0)
                #expect(found.size == 3 && found.permissions == 0o640)
                #expect(found.modified == 2_000_000_000)
                #expect(try file.text() == "abd")
                let map = try file.map(3)
                map.write("x", at: 0)
                #expect(try file.text() == "xbd")
                #expect(refusal { () throws(Errno) in try call(access(path, F_OK)) } == .notFound)
            }
        }
    }

    @Test("a file held by O_PATH has a link count of 0 once its name is removed")
    func paths() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/file"
            // Often enough that the release of a closed file is served during its removal.
            for _ in 0..<500 {
                try OpenFile.creating(path).close()
                let held = try OpenFile(path, O_PATH)
                try call(unlink(path))
                #expect(try held.status().links == 0)
            }

            let directory = "\(volume.path)/directory"
            try call(mkdir(directory, 0o755))
            let open = try OpenFile(directory, O_RDONLY | O_DIRECTORY)
            try call(rmdir(directory))
            #expect(try open.status().links == 0)
            let refused = cl_openat(open.descriptor, "new", O_CREAT | O_WRONLY, 0o644)
            #expect(refused == -ENOENT)
        }
    }

    @Test("hard links: one file, whichever name is removed first")
    func hardLinks() throws {
        try MountedVolume.with { volume in
            let names = (1...4).map { "\(volume.path)/name \($0)" }
            try "text".write(toFile: names[0], atomically: false, encoding: .utf8)
            try call(link(names[0], names[1]))
            #expect(try FileStatus(of: names[1]).links == 2)
            #expect(try FileStatus(of: names[0]).inode == FileStatus(of: names[1]).inode)
            try call(unlink(names[1]))
            #expect(try FileStatus(of: names[0]).links == 1)
            try call(link(names[0], names[2]))
            try call(unlink(names[0]))
            #expect(try String(contentsOfFile: names[2], encoding: .utf8) == "text")
            try call(link(names[2], names[3]))
            try call(rename(names[2], names[3]))
            #expect(
                try FileStatus(of: names[2]).links == 2, "two names of one file: nothing is done")
            try call(unlink(names[2]))
            try call(chmod(names[3], 0o600))
            let last = try FileStatus(of: names[3])
            #expect(last.links == 1 && last.permissions == 0o600)
            try volume.remount()
            #expect(try String(contentsOfFile: names[3], encoding: .utf8) == "text")
        }
    }

    @Test("a file made without a name can be given one", arguments: DataPath.allCases)
    func temporary(_ way: DataPath) throws {
        try way.with { volume in
            let (first, second) = ("\(volume.path)/first.txt", "\(volume.path)/second.txt")
            let file = try OpenFile(volume.path, O_TMPFILE | O_RDWR, mode: 0o640)
            try file.write("temporary")
            #expect(try file.status().links == 0)
            try file.link(to: first)
            #expect(try file.status().links == 1)
            try file.write(" no more", at: 9)
            file.close()
            try call(rename(first, second))
            #expect(try String(contentsOfFile: second, encoding: .utf8) == "temporary no more")
            #expect(try FileStatus(of: second).permissions == 0o640)
            #expect(try History.of(second).versions.count == 1)

            let never = try OpenFile(volume.path, O_TMPFILE | O_RDWR | O_EXCL)
            try never.write("x")
            let refused = refusal { () throws(Errno) in try never.link(to: first) }
            #expect(refused == .notFound)
        }
    }

    @Test("exchange swaps a file and a directory; NOREPLACE replaces nothing")
    func renameFlags() throws {
        try MountedVolume.with { volume in
            let (file, directory) = ("\(volume.path)/file", "\(volume.path)/directory")
            try "1".write(toFile: file, atomically: false, encoding: .utf8)
            try call(mkdir(directory, 0o755))
            try "2".write(toFile: directory + "/in", atomically: false, encoding: .utf8)
            let exchange = UInt32(RENAME_EXCHANGE)
            try check(cl_renameat2(AT_FDCWD, file, AT_FDCWD, directory, exchange))
            #expect(try String(contentsOfFile: directory, encoding: .utf8) == "1")
            #expect(try String(contentsOfFile: file + "/in", encoding: .utf8) == "2")
            let noReplace = UInt32(RENAME_NOREPLACE)
            #expect(cl_renameat2(AT_FDCWD, file, AT_FDCWD, directory, noReplace) == -EEXIST)
            #expect(cl_renameat2(AT_FDCWD, file, AT_FDCWD, directory + "2", noReplace) == 0)
            #expect(
                cl_renameat2(AT_FDCWD, directory + "2", AT_FDCWD, file, exchange) == -ENOENT)
            #expect(try String(contentsOfFile: directory + "2/in", encoding: .utf8) == "2")
        }
    }

    @Test("what rename, rmdir and unlink must refuse, on a tree that was never listed (trap 14)")
    func refusals() throws {
        try MountedVolume.with { volume in
            let script = """
                mkdir -p full/below empty other && touch full/below/file file
                """
            var making = Command("sh", "-ec", script)
            making.directory = volume.path
            try making.succeed()
            try volume.remount()
            func at(_ name: String) -> String { "\(volume.path)/\(name)" }
            func refused(_ result: Int32) -> Int32 { result < 0 ? errno : 0 }
            #expect(refused(rmdir(at("full"))) == ENOTEMPTY)
            #expect(refused(unlink(at("full"))) == EISDIR)
            #expect(refused(rmdir(at("file"))) == ENOTDIR)
            #expect(refused(rename(at("full"), at("full/below/in"))) == EINVAL)
            #expect(refused(rename(at("empty"), at("full"))) == ENOTEMPTY)
            #expect(refused(rename(at("empty"), at("file"))) == ENOTDIR)
            #expect(refused(rename(at("file"), at("empty"))) == EISDIR)
            #expect(refused(rename(at("empty"), at("other"))) == 0)
            #expect(refused(link(at("full"), at("hard"))) == EPERM)
            #expect(refused(rmdir(at("absent"))) == ENOENT)
            #expect(refused(unlink(at("file/below"))) == ENOTDIR)
            #expect(refused(mkdir(at("file"), 0o755)) == EEXIST)
        }
    }

    @Test("a directory in use is renamed: open files, inodes and shells in it go on (trap 13)")
    func directoryInUse() throws {
        try MountedVolume.with { volume in
            let (old, new) = ("\(volume.path)/old", "\(volume.path)/new")
            try FileManager.default.createDirectory(
                atPath: old + "/a/b", withIntermediateDirectories: true)
            let file = try OpenFile.creating(old + "/a/b/file")
            let inode = try file.status().inode
            let script = """
                cd "$1/old/a" && mv "$1/old" "$1/new" && pwd -P && cat b/file
                echo more >> b/file && cat ../a/b/file "$1/new/a/b/file" && ls "$1/new/a"
                """
            try file.write("begun\n")
            let said = try Command("sh", "-c", script, "-", volume.path).succeed()
            #expect(
                said == "\(new)/a\nbegun\nbegun\nmore\nbegun\nmore\nb\n")
            try file.write("go on", at: 6)
            #expect(try file.text() == "begun\ngo on")
            #expect(try FileStatus(of: new + "/a/b/file").inode == inode)
            #expect(access(old, F_OK) == -1)
        }
    }

    @Test("names: 255 bytes, any bytes but slash and NUL, upper and lower case")
    func names() throws {
        try MountedVolume.with { volume in
            let long = String(repeating: "n", count: 255)
            try call(mkdir("\(volume.path)/\(long)", 0o755))
            try OpenFile.creating("\(volume.path)/\(long)/\(long)").close()
            let tooLong = refusal { () throws(Errno) in
                try call(mkdir("\(volume.path)/\(long)n", 0o755))
            }
            #expect(tooLong == Errno(ENAMETOOLONG))

            let strange: [[UInt8]] = [
                [0xff, 0xfe, 0x80], [0x0a, 0x09, 0x1b], Array("a".utf8), Array("A".utf8),
                Array("e\u{301}".utf8), Array("\u{e9}".utf8), Array("-rf *'\"\\".utf8), [0x20],
            ]
            let directory = try OpenFile(volume.path, O_PATH)
            for (index, bytes) in strange.enumerated() {
                let name = bytes.map { CChar(bitPattern: $0) } + [0]
                let made = cl_openat(directory.descriptor, name, O_CREAT | O_EXCL | O_WRONLY, 0o644)
                try #require(made >= 0)
                let text = "number \(index)"
                #expect(cl_pwrite(made, text, text.utf8.count, 0) == text.utf8.count)
                _ = cl_close(made)
            }
            directory.close()
            try volume.remount()
            let found = try names(in: volume.path).subtracting([Array(long.utf8)])
            #expect(found == Set(strange))
            let again = try names(in: volume.tree).subtracting([Array(long.utf8)])
            #expect(again == Set(strange))
            let history = try History.of("\(volume.path)/-rf *'\"\\")
            #expect(history.versions.count == 1)
        }
    }

    private func names(in path: String) throws -> Set<[UInt8]> {
        let listed = try Command(
            "find", path, "-mindepth", "1", "-maxdepth", "1", "-printf", "%f\\0"
        )
        .run()
        return Set(listed.outputData.split(separator: 0).map(Array.init))
    }

    @Test("every entry is listed once while a directory is emptied, filled and read at once")
    func scanning() throws {
        try MountedVolume.with { volume in
            let count = 3_000
            for number in 0..<count { try OpenFile.creating("\(volume.path)/\(number)").close() }
            let stream = try #require(opendir(volume.path))
            defer { closedir(stream) }
            var met: Set<String> = []
            while let entry = readdir(stream) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                guard let number = Int(name), number < count else { continue }
                #expect(met.insert(name).inserted, "\(name) came twice")
                try call(unlink("\(volume.path)/\(name)"))
                if number % 10 == 0 {
                    try OpenFile.creating("\(volume.path)/\(count + number)").close()
                }
            }
            #expect(met.count == count)
            let left = try FileManager.default.contentsOfDirectory(atPath: volume.path)
            #expect(left.count == count / 10)
            rewinddir(stream)
            var again = 0
            while readdir(stream) != nil { again += 1 }
            #expect(again == count / 10 + 2)
        }
    }

    @Test("pipes, sockets and devices can be created and work")
    func specialFiles() throws {
        try MountedVolume.with(options: ["dev"]) { volume in
            let script = """
                mkfifo pipe && (echo through > pipe &) && cat pipe
                mknod null c 1 3 && echo gone > null && test -c null && stat -c '%t %T' null
                ln -s pipe link && readlink link && mv link other && test ! -e link -a -L other
                ln -s absent dangling && ! cat dangling 2>/dev/null && ls
                """
            var command = Command("sh", "-ec", script)
            command.directory = volume.path
            #expect(
                try command.succeed() == "through\n1 3\npipe\ndangling\nnull\nother\npipe\n")
            let socket = "\(volume.path)/socket"
            let listener = cl_unix_listen(socket, 1)
            // A socket's path has 107 bytes at most.
            if listener == -ENAMETOOLONG { return }
            try check(listener)
            defer { _ = cl_close(listener) }
            let client = try check(cl_unix_connect(socket))
            _ = cl_close(client)
        }
    }
}

extension timespec {
    init(seconds: Int) { self.init(tv_sec: seconds, tv_nsec: 0) }
}
