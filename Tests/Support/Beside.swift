import Foundation
import Glibc

/// A program that runs beside a test, usually `fsctl`: a presenter, a holder of a claim, a watcher.
package final class Beside {
    private let child: ChildProcess
    private let home: TemporaryDirectory
    private let toInput: Int32

    /// Starts `fsctl` with these arguments.
    package convenience init(_ arguments: String..., directory: String? = nil) throws {
        try self.init(running: Programs.fsctl, arguments, directory: directory)
    }

    /// Starts a program. Its output goes to a file, and its input is what `tell` sends.
    package init(running program: String, _ arguments: [String], directory: String? = nil) throws {
        home = try TemporaryDirectory("beside")
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw SupportError("cannot make a pipe") }
        let output = open("\(home.path)/output", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer {
            close(output)
            close(ends[0])
        }
        toInput = ends[1]
        // The children of other programs must not keep its input open.
        _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
        child = try ChildProcess(
            program, arguments, directory: directory, input: ends[0], output: output,
            errors: output)
    }

    deinit {
        close(toInput)
        child.killGroup()
    }

    package var pid: pid_t { child.pid }
    package var hasEnded: Bool { child.hasEnded() }
    /// Whether it waits in this function of the kernel.
    package func waitsInside(_ function: String) -> Bool {
        (try? String(contentsOfFile: "/proc/\(pid)/wchan", encoding: .utf8)) == function
    }

    package func send(_ signal: Int32) { child.send(signal) }
    package func waitForEnd(seconds: Double = 20) throws -> Int32 {
        try child.waitForEnd(seconds: seconds)
    }

    package var said: String {
        (try? String(contentsOfFile: "\(home.path)/output", encoding: .utf8)) ?? ""
    }

    @discardableResult
    package func wait(for text: String) throws -> String {
        try Support.wait(seconds: 20, for: "\"\(text)\" from fsctl, which said: \(said)") {
            said.contains(text) ? said : nil
        }
    }

    package func tell(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = write(toInput, bytes, bytes.count)
    }

    /// The id of the claim that it was last asked about.
    package func turn(of kind: String) throws -> Int {
        try wait(for: "\"kind\":\"\(kind)\",\"turn\":")
        let last = said.components(separatedBy: "\"kind\":\"\(kind)\",\"turn\":").last ?? ""
        guard let turn = Int(last.prefix { $0.isNumber }) else {
            throw SupportError("no turn in: \(said)")
        }
        return turn
    }
}
