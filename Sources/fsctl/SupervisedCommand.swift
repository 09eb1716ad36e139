import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A program run to its end, whatever signals come meanwhile.
struct SupervisedCommand {
    let words: [FilePath]

    /// Its exit status as a shell would have it: 127 and 126 when it could not be started.
    func run(signals: borrowing Signals) -> Int32 {
        if let signal = signals.take() { return 128 + signal.number }
        var pointers = words.map { $0.withCString { strdup($0) } } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let process = words[0].withCString { cl_spawn($0, &pointers, 0, 1, 2, -1, 0) }
        guard process > 0 else {
            Terminal.complain("fsctl: cannot run \(words[0]): \(Errno(-process))")
            return process == -ENOENT ? 127 : 126
        }
        let end = cl_pidfd_open(process)
        // Not reaped before it has been seen to end: until then the number is its own.
        while end >= 0 {
            var (descriptors, ready) = ([end, signals.descriptor], [Int16](repeating: 0, count: 2))
            _ = cl_poll(&descriptors, [Int16(POLLIN), Int16(POLLIN)], &ready, 2, -1)
            if ready[0] != 0 { break }
            // A key on the keyboard reached the program as well; what is meant for us alone does
            // not.
            if let signal = signals.take(), signal.isByProgram { kill(process, signal.number) }
        }
        if end >= 0 { _ = cl_close(end) }
        return cl_exit_status(cl_wait_process(process))
    }
}
