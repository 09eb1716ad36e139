import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// Starts the daemon as a new process and waits for its announcement. It is spawned, not forked,
/// because a fork would copy locks that other threads may hold.
enum Background {
    /// Returns the sentence that the daemon announced after mounting.
    static func start(arguments: [FilePath], store: FilePath) throws(VolumeError) -> String {
        var ends: [Int32] = [0, 0]
        do throws(Errno) { try check(cl_pipe(&ends)) } catch {
            throw VolumeError(.system, "cannot make a pipe to the daemon: \(error)")
        }
        let reading = Descriptor(owning: ends[0])
        let process = withArguments([FilePath("concord")] + arguments) {
            cl_spawn("/proc/self/exe", $0, -1, -1, -1, ends[1], 1)
        }
        _ = cl_close(ends[1])
        guard process >= 0 else {
            throw VolumeError(.system, "cannot start the daemon: \(Errno(-process))")
        }
        let word = everything(from: reading.raw)
        guard let space = word.firstIndex(of: UInt8(ascii: " ")),
            let code = Int32(String(decoding: word[..<space], as: UTF8.self))
        else {
            let status = cl_exit_status(cl_wait_process(process))
            throw VolumeError(
                .system,
                "the daemon ended (status \(status)) before the volume was mounted; see "
                    + "\(store)/log"
            )
        }
        let sentence = String(decoding: word[(space + 1)...], as: UTF8.self)
        if code == ExitCode.good.rawValue { return sentence }
        _ = cl_wait_process(process)
        throw VolumeError(VolumeError.Code(exitCode: code), sentence)
    }

    private static func everything(from descriptor: Int32) -> [UInt8] {
        var (bytes, piece) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 14))
        while true {
            let count = read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return bytes }
            bytes += piece[..<count]
        }
    }
}

extension VolumeError.Code {
    /// The code for which `ExitCode` gives this number.
    fileprivate init(exitCode: Int32) {
        let all: [VolumeError.Code] = [
            .notFound, .busy, .invalid, .denied, .damaged, .full, .newer, .timeout,
        ]
        self = all.first { ExitCode($0).rawValue == exitCode } ?? .system
    }
}
