import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Files that lose their name while the kernel resolves a path for another program.
@Suite("A file is replaced while its path is resolved") struct ReplacedFileTests {
    /// While a claim delays a rename, a truncation finds the old file and waits for the kernel's
    /// lock of it, which the rename has. Prints what has the name at the end.
    private static let race = """
        import os, subprocess, sys, threading, time
        def begin(body, waits):
            thread = threading.Thread(target=body)
            thread.start()
            while not waits(open(f'/proc/self/task/{thread.native_id}/stack').read()):
                time.sleep(0.001)
            return thread
        holder = subprocess.Popen(
            [sys.argv[1], 'coordinate', 'write', 'a', '--', 'sh', '-c', 'echo has it; cat'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdout.readline()
        rename = begin(lambda: os.rename('b', 'a'), lambda stack: 'fuse_rename' in stack)
        truncate = begin(
            lambda: os.truncate('a', 5),
            lambda stack: 'do_truncate' in stack and 'fuse_' not in stack)
        holder.communicate()
        rename.join()
        truncate.join()
        print(open('a').read())
        """

    @Test("truncate(2) truncates the file that has the name", arguments: DataPath.allCases)
    func replaced(_ way: DataPath) throws {
        // Others may not read in which functions of the kernel their threads wait.
        guard geteuid() == 0 else { return }
        try way.with(options: ["names_timeout=20"]) { volume in
            for (name, text) in [("a", "old contents"), ("b", "new contents")] {
                try Data(text.utf8).write(to: URL(filePath: "\(volume.path)/\(name)"))
            }
            var program = Command("python3", "-c", Self.race, Programs.fsctl)
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
