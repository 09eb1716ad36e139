import CLinux
import Control
import Glibc
import Model

/// Reports the result of starting to the process that started the daemon: in the foreground on
/// standard output, otherwise through a pipe, as an exit code, a space and one sentence.
struct StartupReport: Sendable {
    /// The pipe's writing end; nil in the foreground.
    let descriptor: Int32?

    var isForeground: Bool { descriptor == nil }

    /// Returns false when the starting process no longer reads the pipe.
    func succeed(_ sentence: String) -> Bool {
        guard let descriptor else {
            let bytes = Array("concord: \(sentence)\n".utf8)
            _ = write(1, bytes, bytes.count)
            return true
        }
        return send(descriptor, .good, sentence)
    }

    /// Reports a failure through the pipe. In the foreground the caller writes it to standard
    /// error.
    func fail(_ error: VolumeError) {
        if let descriptor { _ = send(descriptor, ExitCode(error.code), error.message) }
    }

    private func send(_ descriptor: Int32, _ code: ExitCode, _ sentence: String) -> Bool {
        let bytes = Array("\(code.rawValue) \(sentence)".utf8)
        let count = write(descriptor, bytes, bytes.count)
        _ = cl_close(descriptor)
        return count == bytes.count
    }
}
