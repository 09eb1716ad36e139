import CFuse
import Foundation
import Glibc
import Support

// A disk in memory that can lose its power, to be put under a file system by a loop device:
//
//     disk-program DIRECTORY MEGABYTES
//
// It mounts at DIRECTORY a file system with one file, `image`, says `ready`, and then obeys one
// command a line, with one line of answer. The end of its input ends it.
//
//     lose SEED PATH     writes to PATH what the disk would hold if its power were lost now
func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(1, bytes, bytes.count)
}

guard CommandLine.arguments.count == 3, let megabytes = Int(CommandLine.arguments[2]) else {
    say("disk-program DIRECTORY MEGABYTES")
    exit(2)
}
let served = DiskServer(disk: MemoryDisk(size: megabytes << 20))
guard served.mount(at: CommandLine.arguments[1]) else { exit(1) }
Thread {
    say("ready")
    while let line = readLine() {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        guard words.count == 3, words[0] == "lose", let seed = UInt64(words[1]) else {
            say("error: \(line) is not a command")
            continue
        }
        do { say("ok \(try served.disk.writeImage(to: words[2], seed: seed))") } catch {
            say("error: \(error)")
        }
    }
    served.stop()
}.start()
served.run()
