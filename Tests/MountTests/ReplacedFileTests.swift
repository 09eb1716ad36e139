import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Files that lose their name while the kernel resolves a path for another program.
@Suite("A file is replaced while its path is resolved") struct ReplacedFileTests {
    /// Stops the daemon, lets a rename wait for it, and then a truncation that has found the old
    /// file already, which the kernel carries out after the rename. Prints what has the name at the
    /// end.
    private static let race = """
        import glob, os, signal, sys, threading, time
        daemon = int(sys.argv[1])
        def begin(body):
            thread = threading.Thread(target=body)
            thread.start()
            place = f'/proc/self/task/{thread.native_id}/wchan'
            def waits(): return any(name in open(place).read() for name in ('request', 'rwsem'))
            while not waits(): time.sleep(0.001)
            return thread
        for path in ('a', 'b'): os.stat(path)
        os.kill(daemon, signal.SIGSTOP)
        tasks = glob.glob(f'/proc/{daemon}/task/*/stat')
        while not all(') T ' in open(task).read() for task in tasks):
            time.sleep(0.001)
        try: threads = [begin(lambda: os.rename('b', 'a')), begin(lambda: os.truncate('a', 5))]
        finally: os.kill(daemon, signal.SIGCONT)
        for thread in threads: thread.join()
        print(open('a').read())
        """

    @Test("truncate(2) truncates the file that has the name", arguments: DataPath.allCases)
    func replaced(_ way: DataPath) throws {
        // Others may not read in which functions of the kernel their threads wait.
        guard geteuid() == 0 else { return }
        try way.with { volume in
            for (name, text) in [("a", "old contents"), ("b", "new contents")] {
                try Data(text.utf8).write(to: URL(filePath: "\(volume.path)/\(name)"))
            }
            var program = Command("python3", "-c", Self.race, "\(volume.pid)")
            program.directory = volume.path
            #expect(try program.succeed() == "new c\n")
        }
    }

    @Test("a file without a name is truncated by the path of its descriptor")
    func orphan() throws {
        try MountedVolume.with { volume in
            let file = try OpenFile.creating("\(volume.path)/a")
            try file.write("abc")
            try call(unlink("\(volume.path)/a"))
            try call(truncate("/proc/self/fd/\(file.descriptor)", 2))
            #expect(try file.text() == "ab")
        }
    }
}
