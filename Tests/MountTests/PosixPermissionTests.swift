import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Owners, groups, modes and access control lists. Root mounts; other users have access.
@Suite("POSIX: permissions", .enabled(if: geteuid() == 0, "acting as other users takes root"))
struct PosixPermissionTests {
    /// A shell script of another user's (uid 1000, gid 1000), in the volume.
    @discardableResult
    private func asUser(
        _ script: String, groups: String = "1000", in volume: MountedVolume
    ) throws -> String {
        var command = Command(
            "setpriv", "--reuid=1000", "--regid=1000", "--groups=\(groups)", "sh", "-ec", script)
        command.directory = volume.path
        return try command.succeed()
    }

    @discardableResult
    private func asRoot(_ script: String, in volume: MountedVolume) throws -> String {
        var command = Command("sh", "-ec", script)
        command.directory = volume.path
        return try command.succeed()
    }

    @Test("new files get their user's identity and umask", arguments: DataPath.allCases)
    func owners(_ way: DataPath) throws {
        try way.with { volume in
            try asRoot("chmod 1777 .", in: volume)
            let said = try asUser(
                """
                umask 027; echo x > file; mkdir directory; ln -s file link; mkfifo pipe
                umask 0; echo x > open
                stat -c '%n %u %g %a' file directory link pipe open
                """, in: volume)
            #expect(
                said == """
                    file 1000 1000 640
                    directory 1000 1000 750
                    link 1000 1000 777
                    pipe 1000 1000 640
                    open 1000 1000 666

                    """)
        }
    }

    @Test("a set-group-ID directory passes on its group, for members and others")
    func setGroupID() throws {
        for way in DataPath.allCases {
            try way.with { volume in
                try asRoot(
                    "mkdir sg; chown 0:2000 sg; chmod 2777 sg; chmod 755 .", in: volume)
                let script = """
                    umask 022; rm -rf sg/*; : > sg/file; mkdir sg/below; chmod 2755 sg/file
                    stat -c '%u %g %a' sg/file sg/below
                    """
                // A user outside the group cannot set the bit.
                let stranger = try asUser(script, in: volume)
                #expect(stranger == "1000 2000 755\n1000 2000 2755\n", "\(way)")
                let member = try asUser(script, groups: "2000,3000", in: volume)
                #expect(member == "1000 2000 2755\n1000 2000 2755\n", "\(way)")
            }
        }
    }

    @Test(
        "with a supplementary group, files can be created in the group's directory",
        arguments: DataPath.allCases)
    func supplementaryGroups(_ way: DataPath) throws {
        try way.with { volume in
            try asRoot("mkdir team; chown 0:2000 team; chmod 770 team; chmod 755 .", in: volume)
            let said = try asUser(
                """
                echo x > team/file; mkdir team/below; mv team/file team/below/file
                echo y >> team/below/file; cat team/below/file; stat -c '%u %g' team/below/file
                rm -r team/below
                """, groups: "3000,2000", in: volume)
            #expect(said == "x\ny\n1000 1000\n")
            #expect(throws: SupportError.self) {
                try asUser("echo x > team/file", groups: "3000", in: volume)
            }
        }
    }

    @Test("the kernel checks permissions: no user reads, writes or searches without them")
    func denials() throws {
        try MountedVolume.with { volume in
            try asRoot(
                """
                chmod 755 .; mkdir closed; echo secret > closed/file; chmod 700 closed
                echo secret > private; chmod 600 private; echo shown > public; chmod 644 public
                echo again > private
                """, in: volume)
            let said = try asUser(
                """
                no() { if "$@" 2>/dev/null; then echo "was allowed: $*"; fi; }
                no cat private; no cat closed/file; no ls closed; no touch new; no rm public
                no sh -c 'echo x > public'; no mv public p; no chmod 666 public
                no truncate -s 0 public
                no cat .versions/private/*; no ls .versions/closed; no ls closed/.versions/file
                no setfattr -n user.x -v y public; no chown 1000 public; no ln public hard
                cat public
                """, in: volume)
            #expect(said == "shown\n")
        }
    }

    @Test(
        "a write by another user clears set-ID bits, and so does a change of owner",
        arguments: DataPath.allCases)
    func setIDBits(_ way: DataPath) throws {
        try way.with { volume in
            try asRoot(
                """
                chmod 755 .
                for name in written appended truncated owned untouched; do
                    head -c 8192 /dev/zero > $name; chmod 6777 $name
                done
                """, in: volume)
            try asUser(
                "echo x > written; echo x >> appended; truncate -s 3 truncated", in: volume)
            try asRoot("chown 1000 owned", in: volume)
            for name in ["written", "appended", "truncated", "owned"] {
                let mode = try FileStatus(of: "\(volume.path)/\(name)").permissions
                #expect(mode == 0o777, "\(name) \(String(mode, radix: 8))")
                let below = try FileStatus(of: "\(volume.tree)/\(name)").permissions
                #expect(below == 0o777, "\(name) \(String(below, radix: 8))")
            }
            #expect(try FileStatus(of: "\(volume.path)/untouched").permissions == 0o6777)
        }
    }

    @Test("a file written to by another user does not run set-ID", arguments: DataPath.allCases)
    func setIDPrograms(_ way: DataPath) throws {
        try way.with(options: ["suid"]) { volume in
            try asRoot(
                """
                chmod 755 .
                for name in appended cut held; do cp "$(command -v id)" $name; done
                chmod 4777 appended cut; stat -c %a appended cut
                """, in: volume)
            let said = try asUser(
                """
                ./appended -u; echo x >> appended; ./appended -u; stat -c %a appended
                ./cut -u; truncate -s +1 cut; ./cut -u; stat -c %a cut
                """, in: volume)
            #expect(said == "0\n1000\n777\n0\n1000\n777\n")
        }
    }

    @Test("root's writes keep the set-ID bits of its own file", arguments: DataPath.allCases)
    func setIDOfRoot(_ way: DataPath) throws {
        try way.with { volume in
            let named = open(volume.path + "/made", O_CREAT | O_EXCL | O_RDWR, 0o6700)
            // O_TMPFILE
            let nameless = open(volume.path, 0o20_000_000 | O_DIRECTORY | O_RDWR, 0o6700)
            for file in [named, nameless] {
                #expect(file >= 0)
                let descriptor = Descriptor(owning: file)
                #expect(write(descriptor.raw, "x", 1) == 1)
                var status = stat()
                #expect(fstat(descriptor.raw, &status) == 0)
                #expect(status.st_mode & 0o7777 == 0o6700, "\(String(status.st_mode, radix: 8))")
            }
        }
    }

    @Test("a descriptor from before the set-id bits clears them too", arguments: DataPath.allCases)
    func setIDAndOpenDescriptors(_ way: DataPath) throws {
        try way.with(options: ["suid"]) { volume in
            for (redirection, name) in [(">>", "appended"), ("<>", "written")] {
                let said = try asRoot(
                    """
                    user() { setpriv --reuid=1000 --regid=1000 --groups=1000 "$@"; }
                    chmod 755 .; cp "$(command -v id)" \(name); chmod 777 \(name)
                    exec 3\(redirection)\(name); chmod 4777 \(name); stat -c %a \(name)
                    user sh -ec 'head -c 1 \(name) >&3'; stat -c %a \(name)
                    exec 3>&-; user ./\(name) -u
                    """, in: volume)
                #expect(said == "4777\n777\n1000\n", "\(name)")
            }
        }
    }

    @Test("in a sticky directory no user removes another's files")
    func sticky() throws {
        try MountedVolume.with { volume in
            try asRoot(
                "mkdir s; chmod 1777 s; chmod 755 .; : > s/root; : > s/given; chown 1000 s/given",
                in: volume)
            try asUser("rm s/given; : > s/own; mv s/own s/other; rm s/other", in: volume)
            for script in ["rm -f s/root", "mv s/root s/mine", ": > s/x; mv s/x s/root"] {
                #expect(throws: SupportError.self) { try asUser(script, in: volume) }
            }
            #expect(access("\(volume.path)/s/root", F_OK) == 0)
        }
    }

    @Test("default access control lists are inherited and obeyed", arguments: DataPath.allCases)
    func accessControlLists(_ way: DataPath) throws {
        try way.with { volume in
            try asRoot(
                """
                chmod 755 .; mkdir shared; setfacl -m u:1000:rwx -m d:u:1000:rw -m d:g::- shared
                umask 077; echo root > shared/file; mkdir shared/below; chmod 700 .; chmod 755 .
                """, in: volume)
            let list = try Command(
                "getfacl", "-cEn", "\(volume.path)/shared/file", "\(volume.path)/shared/below"
            ).succeed()
            let plain = try Command(
                "getfacl", "-cEn", "\(volume.tree)/shared/file", "\(volume.tree)/shared/below"
            ).succeed()
            #expect(list == plain)
            #expect(list.contains("user:1000:rw-"))
            #expect(list.contains("default:user:1000:rw-"))
            // The umask is not used if there is a default list.
            #expect(try asUser("cat shared/file; echo more >> shared/file", in: volume) == "root\n")
            try asRoot("setfacl -m u:1000:-,m::r shared/file", in: volume)
            #expect(throws: SupportError.self) { try asUser("cat shared/file", in: volume) }
        }
    }

    @Test(
        "an open file keeps its access when the mode changes",
        arguments: DataPath.allCases)
    func openHandles(_ way: DataPath) throws {
        try way.with { volume in
            try asRoot("chmod 1777 .", in: volume)
            let said = try asUser(
                """
                exec 3<>file; chmod 000 file; echo one >&3; echo two >&3; ! cat file 2>/dev/null
                chmod 600 file; cat file
                umask 777; exec 4>made; echo three >&4; exec 4>&-; chmod 600 made; cat made
                """, in: volume)
            #expect(said == "one\ntwo\nthree\n")
        }
    }
}
