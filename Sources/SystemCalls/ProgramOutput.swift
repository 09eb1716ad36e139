import CLinux
import Glibc

/// Runs a program and returns what it wrote to standard output, or nil when it could not be started
/// or failed. Its standard input and standard error are /dev/null. Blocks until the program ends.
package func output(of arguments: [String]) -> String? {
    var ends: [Int32] = [0, 0]
    guard cl_pipe(&ends) >= 0 else { return nil }
    var words = arguments.map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    let process = cl_spawn(arguments[0], &words, -1, ends[1], -1, -1, 0)
    _ = cl_close(ends[1])
    defer { _ = cl_close(ends[0]) }
    guard process > 0 else { return nil }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = read(ends[0], &buffer, buffer.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        bytes += buffer[..<count]
    }
    guard cl_exit_status(cl_wait_process(process)) == 0 else { return nil }
    return String(decoding: bytes, as: UTF8.self)
}
