import CLinux
import Control
import Glibc
import Model

/// How a daemon tells whoever started it how it went: on standard output in the foreground, else
/// through a pipe, as an exit code, a space and one sentence.
struct Announcement: Sendable {
    /// The pipe's end for writing; nil in the foreground.
    let descriptor: Int32?

    var isForeground: Bool { descriptor == nil }

    /// False when nobody is left to hear it.
    func succeed(_ sentence: String) -> Bool {
        guard let descriptor else {
            let bytes = Array("concord: \(sentence)\n".utf8)
            _ = write(1, bytes, bytes.count)
            return true
        }
        return send(descriptor, .good, sentence)
    }

    /// Tells the starter; in the foreground there is only standard error, which the caller writes
    /// to.
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
