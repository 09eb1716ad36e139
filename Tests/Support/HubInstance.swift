import Foundation
import Glibc

/// A process of `concord hub`. Several of them may share a ledger and blobs.
final class HubInstance {
    let data: String
    private(set) var port = 0
    private let log: String
    private var process: ChildProcess?

    init(data: String, log: String) {
        self.data = data
        self.log = log
    }

    deinit { process?.killGroup() }

    var pid: pid_t { process?.pid ?? 0 }
    var said: String {
        String(((try? String(contentsOfFile: log, encoding: .utf8)) ?? "").suffix(4_000))
    }

    /// Starts on the same port as before, if there was one.
    ///
    /// - Parameter arguments: Those of `concord hub`, without the data directory and the port.
    func start(_ arguments: [String], environment: [String: String]) throws {
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        let output = open(log, O_WRONLY | O_TRUNC | O_CLOEXEC)
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer {
            close(output)
            close(null)
        }
        let words = ["hub", "--data", data, "--listen", "127.0.0.1:\(port)"] + arguments
        let process = try ChildProcess(
            Programs.concord, words, environment: environment, directory: "/", input: null,
            output: output, errors: output)
        self.process = process
        port = try wait(seconds: 30, for: "the hub to listen; it said: \(said)") {
            if process.hasEnded() { throw SupportError("the hub ended: \(self.said)") }
            let mark = /the hub listens on https?:\/\/127\.0\.0\.1:(\d+)/
            return self.said.firstMatch(of: mark).flatMap { Int($0.1) }
        }
    }

    func send(_ signal: Int32) { process?.send(signal) }

    /// - Returns: The status; nil if the process did not run.
    func end(by signal: Int32) throws -> Int32? {
        process?.send(signal)
        let status = try process?.waitForEnd(seconds: 30)
        process = nil
        return status
    }
}
