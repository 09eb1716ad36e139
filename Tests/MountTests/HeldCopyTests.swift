import Foundation
import Glibc
import Support
import Synchronization
import SystemCalls
import Testing

/// Copies take as long as a file is. While one is held at its beginning, other requests go on.
@Suite("Long copies", .serialized, .enabled(if: geteuid() == 0, "only root may hold a file"))
struct HeldCopyTests {
    /// Calls in programs that have not returned yet.
    private final class Calls: Sendable {
        private let running = Mutex(0)
        private let failures = Mutex<[String]>([])

        func start(_ body: @escaping @Sendable () throws -> Void) {
            running.withLock { $0 += 1 }
            Thread {
                do { try body() } catch { self.failures.withLock { $0.append("\(error)") } }
                self.running.withLock { $0 -= 1 }
            }.start()
        }

        var count: Int { running.withLock { $0 } }

        func finish() throws {
            try wait(seconds: 60, for: "calls to return") { count == 0 ? true : nil }
            #expect(failures.withLock { $0 } == [])
        }
    }

    /// The copies of many large files leave the threads alone that other opens need.
    @Test(
        "opens of other documents do not wait for copies of large ones",
        arguments: ["empty", "truncate"])
    func opens(_ how: String) throws {
        try MountedVolume.with { volume in
            let large = (0..<6).map { "large\($0)" }
            for name in large {
                let file = try OpenFile.creating("\(volume.path)/\(name)")
                try file.write([UInt8](repeating: 7, count: 2 << 20), at: 0)
            }
            try OpenFile.creating("\(volume.path)/small").write("recorded")
            try volume.waitForDisk()
            let held = try large.map { try HeldFile("\(volume.tree)/\($0)") }
            let calls = Calls()
            for name in large {
                let path = "\(volume.path)/\(name)"
                calls.start {
                    if how == "empty" {
                        _ = try OpenFile(path, O_WRONLY | O_TRUNC)
                    } else if Glibc.truncate(path, 5) != 0 {
                        throw Errno(errno)
                    }
                }
            }
            try wait(seconds: 30, for: "four copies to begin") {
                held.count { $0.isAwaited } >= 4 ? true : nil
            }
            // What was promised to be on the disk is copied and synced before this returns.
            try OpenFile("\(volume.path)/small", O_RDWR).write("new")
            #expect(calls.count == 6, "The copies are still held.")
            for file in held { file.end() }
            try calls.finish()
            try volume.waitForDisk()
            for name in large + ["small"] {
                let versions = try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.path)/.versions/\(name)")
                #expect(versions.count == 2, "\(name)")
            }
        }
    }

    @Test(
        "no name waits while a replaced file is copied, which its user may not link",
        .enabled(if: OrdinaryUser.obstacle == nil, "\(OrdinaryUser.obstacle ?? "")"))
    func replaced() throws {
        let hold = """
            import fcntl, os, signal, time
            os.chdir('/mnt')
            while not os.path.exists('outside/recorded'): time.sleep(0.02)
            os.chown('store/tree/doc', 0, 0)
            signal.signal(signal.SIGIO, lambda *_: open('outside/held', 'w'))
            doc = os.open('store/tree/doc', os.O_RDONLY)
            fcntl.fcntl(doc, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            open('outside/leased', 'w')
            while not os.path.exists('outside/go'): time.sleep(0.02)
            fcntl.fcntl(doc, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            """
        let said = try OrdinaryUser().succeed(
            """
            await() { until test -e outside/$1; do sleep 0.02; done; }
            concord mount --store store mount >&2
            echo old > mount/doc; echo new > mount/draft; chmod 644 mount/doc
            # The kernel locks the directory of a rename by itself.
            mkdir mount/else; echo other > mount/else/other
            fsctl wait --durable disk mount
            touch outside/recorded
            await leased
            # RENAME_WHITEOUT, with which names cannot be exchanged.
            python3 -c 'import ctypes, os
            libc = ctypes.CDLL(None, use_errno=True)
            failed = libc.renameat2(-100, b"mount/draft", -100, b"mount/doc", 4)
            print("replaced" if not failed else os.strerror(ctypes.get_errno()))' &
            rename=$!
            await held
            mv mount/else/other mount/else/another; rm mount/else/another; mkdir mount/else/made
            kill -0 $rename && echo "the names went on"
            touch outside/go; wait $rename
            cat mount/doc; fsctl wait --durable disk mount; cat mount/.versions/doc/*
            concord unmount mount
            """, asRoot: "sysctl -q fs.protected_hardlinks | grep -q 1; python3 -c \"\(hold)\" &")
        #expect(said == "the names went on\nreplaced\nnew\nold\nnew\n")
    }
}
