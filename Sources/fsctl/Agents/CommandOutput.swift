import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// The output of a command of this program.
struct CommandOutput {
    var status: Int32
    var output: String
    var error: String

    /// Runs this program with other arguments and without standard input.
    static func run(_ words: [String]) throws(VolumeError) -> CommandOutput {
        var (out, err) = ([Int32](repeating: 0, count: 2), [Int32](repeating: 0, count: 2))
        guard cl_pipe(&out) >= 0 else { throw failure(errno) }
        guard cl_pipe(&err) >= 0 else {
            for end in out { _ = cl_close(end) }
            throw failure(errno)
        }
        var arguments = (["fsctl"] + words).map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        let process = cl_spawn("/proc/self/exe", &arguments, -1, out[1], err[1], -1, 0)
        _ = cl_close(out[1])
        _ = cl_close(err[1])
        defer {
            _ = cl_close(out[0])
            _ = cl_close(err[0])
        }
        guard process > 0 else { throw failure(-process) }
        let texts = drain([out[0], err[0]])
        return CommandOutput(
            status: cl_exit_status(cl_wait_process(process)), output: trimmed(texts[0]),
            error: trimmed(texts[1]))
    }

    private static func failure(_ code: Int32) -> VolumeError {
        VolumeError(.system, "a command cannot be started: \(Errno(code))")
    }

    /// Reads both pipes at the same time, so that the program never blocks on a full one.
    private static func drain(_ ends: [Int32]) -> [[UInt8]] {
        var texts = ends.map { _ in [UInt8]() }
        var open = Set(ends.indices)
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while !open.isEmpty {
            let indices = open.sorted()
            let descriptors = indices.map { ends[$0] }
            let events = indices.map { _ in Int16(POLLIN) }
            var ready = [Int16](repeating: 0, count: indices.count)
            _ = cl_poll(descriptors, events, &ready, Int32(indices.count), -1)
            for (index, event) in zip(indices, ready) where event != 0 {
                let count = read(ends[index], &piece, piece.count)
                if count < 0, errno == EINTR { continue }
                if count > 0 { texts[index] += piece[..<count] } else { open.remove(index) }
            }
        }
        return texts
    }

    private static func trimmed(_ bytes: [UInt8]) -> String {
        var text = String(decoding: bytes, as: UTF8.self)
        while text.last?.isNewline == true { text.removeLast() }
        return text
    }
}
