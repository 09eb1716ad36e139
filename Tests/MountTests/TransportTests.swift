import Foundation
import Glibc
import Support
import Testing

/// Requests over io_uring and over /dev/fuse.
@Suite("Transport of requests", .serialized)
struct TransportTests {
    @Test("`fsctl status` says what carries requests, and why it is not io_uring")
    func status() throws {
        for transport in Transport.allCases {
            try transport.with { volume in
                let text = try Programs.fsctl("status", volume.path).succeed()
                let line = text.split(separator: "\n").first { $0.contains("Requests") }
                let expected =
                    transport == .rings ? "io_uring" : "/dev/fuse (without the mount option uring)"
                #expect(line?.hasSuffix(expected) == true, "\(text)")
            }
        }
    }

    @Test(
        "rings that cannot be set up are not claimed, and the mount works without them",
        .enabled(if: Transport.obstacle == nil, "\(Transport.obstacle ?? "")"))
    func refused() throws {
        let home = try TemporaryDirectory("refused")
        try Command("mkdir", "\(home.path)/mount").succeed()
        // io_uring_setup(2) fails in the middle of the set-up.
        let said = try Command(
            "python3", "-c", Self.withoutRings, Programs.concord, "mount", "--store",
            "\(home.path)/store", "-o", "uring", "\(home.path)/mount"
        ).succeed()
        defer { _ = umount2("\(home.path)/mount", Int32(MNT_DETACH)) }
        #expect(said.contains("mounted"), "\(said)")
        let text = try Programs.fsctl("status", "\(home.path)/mount").succeed()
        #expect(text.contains("/dev/fuse (io_uring cannot be set up: "), "\(text)")
        try Data("x".utf8).write(to: URL(filePath: "\(home.path)/mount/file"))
        #expect(try Command("cat", "\(home.path)/mount/file").succeed() == "x")
        try Command(Programs.concord, "unmount", "\(home.path)/mount").succeed()
    }

    /// Runs a program for which io_uring_setup(2) fails with ENOSYS, by a seccomp filter.
    private static let withoutRings = """
        import ctypes, os, struct, sys
        libc = ctypes.CDLL(None, use_errno=True)
        filters = b"".join(struct.pack("=HBBI", *one) for one in [
            (0x20, 0, 0, 0),              # load the number of the call
            (0x15, 0, 1, 425),            # io_uring_setup
            (0x06, 0, 0, 0x00050000 | 38),
            (0x06, 0, 0, 0x7fff0000)])
        buffer = ctypes.create_string_buffer(filters)
        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.c_void_p)]
        program = Program(len(filters) // 8, ctypes.addressof(buffer))
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, ctypes.byref(program)) == 0, os.strerror(ctypes.get_errno())
        os.execv(sys.argv[1], sys.argv[1:])
        """

    @Test(
        "a kill -9 under load: clients return, and the store mounts again",
        arguments: Transport.allCases)
    func killed(_ transport: Transport) throws {
        try transport.with { volume in
            let load = """
                import os, sys, threading
                def work(number):
                    path = f"{sys.argv[1]}/{number}"
                    try:
                        while True:
                            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                            os.stat(path); os.rename(path, path + "x"); os.unlink(path + "x")
                    except OSError: pass
                workers = [threading.Thread(target=work, args=(n,)) for n in range(16)]
                for one in workers: one.start()
                print("begun", flush=True)
                for one in workers: one.join()
                """
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            for _ in 0..<3 {
                let client = try ChildProcess(
                    "python3", ["-c", load, volume.path], input: null, output: null, errors: null)
                defer { client.killGroup() }
                try wait(for: "the clients to work") {
                    ((try? FileManager.default.contentsOfDirectory(atPath: volume.path)) ?? [])
                        .isEmpty ? nil : true
                }
                try volume.kill9()
                #expect(try client.waitForEnd(seconds: 60) == 0)
                try volume.mount()
                try Programs.fsctl("doctor", volume.path).succeed()
            }
        }
    }

    @Test("a mount ends by umount and by SIGTERM, and begins again", arguments: Transport.allCases)
    func ended(_ transport: Transport) throws {
        try transport.with { volume in
            for _ in 0..<5 {
                try volume.remount()
                try Data("x".utf8).write(to: URL(filePath: "\(volume.path)/file"))
            }
            try volume.terminate()
            try volume.mount()
        }
    }

    @Test(
        "arguments outlive a reply: long names and values, and large directories",
        arguments: Transport.allCases)
    func largeMessages(_ transport: Transport) throws {
        try transport.with { volume in
            let script = """
                import os, sys
                os.chdir(sys.argv[1])
                names = ["n" * 200 + str(number) for number in range(3000)]
                for name in names: open(name, "w").close()
                assert sorted(os.listdir(".")) == sorted(names)
                value = os.urandom(3000)
                os.setxattr(names[0], "user." + "x" * 200, value)
                assert os.getxattr(names[0], "user." + "x" * 200) == value
                assert os.listxattr(names[0]) == ["user." + "x" * 200]
                os.rename(names[0], "r" * 255)
                assert os.getxattr("r" * 255, "user." + "x" * 200) == value
                os.symlink("t" * 4000, "link")
                assert os.readlink("link") == "t" * 4000
                for name in os.listdir("."): os.unlink(name)
                assert os.listdir(".") == []
                """
            try Command("python3", "-c", script, volume.path).succeed()
        }
    }
}
