import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// Runs a program to its end and passes on the signals that only we received.
struct SupervisedCommand {
    let words: [FilePath]

    /// Returns the exit status that a shell would return: 127 or 126 when it could not be started.
    func run(signals: borrowing Signals) -> Int32 {
        if let signal = signals.take() { return 128 + signal.number }
        var pointers = words.map { $0.withCString { strdup($0) } } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let process = words[0].withCString { cl_spawn($0, &pointers, 0, 1, 2, -1, 0) }
        guard process > 0 else {
            Terminal.printError("fsctl: cannot run \(words[0]): \(Errno(-process))")
            return process == -ENOENT ? 127 : 126
        }
        let end = cl_pidfd_open(process)
        // The process is not reaped before its end is seen, so that its number cannot be reused
        // while we may still send it a signal.
        while end >= 0 {
            var (descriptors, ready) = ([end, signals.descriptor], [Int16](repeating: 0, count: 2))
            _ = cl_poll(&descriptors, [Int16(POLLIN), Int16(POLLIN)], &ready, 2, -1)
            if ready[0] != 0 { break }
            // A signal from the keyboard reached the program, too. One that a program sent to us
            // alone did not, so it is passed on.
            if let signal = signals.take(), signal.isByProgram { kill(process, signal.number) }
        }
        if end >= 0 { _ = cl_close(end) }
        return cl_exit_status(cl_wait_process(process))
    }
}
