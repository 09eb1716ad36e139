import CLinux
import Foundation
import Glibc
import Journal
import Logging
import Model
import Mount
import SystemCalls
import Volume

// A mounted volume whose hub is a directory, for tests of contents on demand:
//
//     contents-program STORE MOUNTPOINT HUB [nopassthrough] [timeout=SECONDS] [cache=BYTES]
//
// It says `ready`, and then obeys one command a line, with one line of answer: `ok …` or
// `error CODE SENTENCE`. The end of its input ends the mount.
//
//     keep PATH              records a document and brings it to the hub
//     unlist PATH            as if its list of chunks had never been fetched
//     evict PATH [force]     hydrate PATH     pin PATH     unpin PATH     dataless PATH
//     place NAME CHUNKS REAL a placeholder in the root of so many chunks of 4 MiB, the first REAL
//                            of which the hub has
//     excess                 evicts what is over the limits
//     doctor                 what it finds
func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(1, bytes, bytes.count)
}

let arguments = CommandLine.arguments
let desk = try Desk(
    store: arguments[1], mountPoint: arguments[2], hub: HubDirectory(path: arguments[3]),
    options: Array(arguments[4...]))
let obeying = Thread {
    say("ready")
    while let line = readLine() {
        say(desk.answer(line.split(separator: " ").map(String.init)))
    }
    desk.session.stop()
}
obeying.start()
desk.session.run()
desk.volume.stop()
