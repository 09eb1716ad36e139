import Foundation
import Glibc

/// A program that was started in its own process group. It has only the descriptors that it is
/// given: a daemon that inherited one would keep a mount busy.
package final class ChildProcess {
    package let pid: pid_t
    package let name: String
    /// The exit status, or 128 and the signal that ended it; nil while it runs.
    package private(set) var status: Int32?

    /// Starts `program` (looked up in PATH) with these descriptors as 0, 1 and 2.
    package init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        directory: String? = nil, input: Int32, output: Int32, errors: Int32
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (target, source) in [input, output, errors].enumerated() {
            posix_spawn_file_actions_adddup2(&actions, source, Int32(target))
        }
        for descriptor in 3..<Self.descriptorLimit() {
            posix_spawn_file_actions_addclose(&actions, descriptor)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var signals = sigset_t()
        posix_spawnattr_setsigmask(&attributes, &signals)
        // The default signal actions, as a shell would set them. Processes that Tests/run starts in
        // the background ignore SIGINT.
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)

        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let place = directory.map { ["env", "--chdir=\($0)"] } ?? []
        let words = (place + [program] + arguments).map { strdup($0) } + [nil]
        let settings = variables.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in words + settings { free(text) } }
        var pid: pid_t = 0
        let error = posix_spawnp(&pid, words[0]!, &actions, &attributes, words, settings)
        guard error == 0 else {
            throw SupportError("cannot start \(program): \(String(cString: strerror(error)))")
        }
        self.pid = pid
        name = program.split(separator: "/").last.map(String.init) ?? program
    }

    /// A number above every descriptor that is open now, with room for those that other threads
    /// open in the meantime. Closing a descriptor that is not open is not an error.
    private static func descriptorLimit() -> Int32 {
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return (open.compactMap { Int32($0) }.max() ?? 64) + 64
    }

    /// Whether it has ended. Its status is known then.
    package func hasEnded() -> Bool {
        if status != nil { return true }
        var raw: Int32 = 0
        guard waitpid(pid, &raw, WNOHANG) == pid else { return false }
        status = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + (raw & 0x7f)
        return true
    }

    package func waitForEnd(seconds: Double) throws -> Int32 {
        try wait(seconds: seconds, for: "\(name) (\(pid)) to end") { hasEnded() ? status : nil }
    }

    package func send(_ signal: Int32) {
        if !hasEnded() { _ = kill(pid, signal) }
    }

    /// Kills the process and everything that it has started in its group.
    package func killGroup() {
        if !hasEnded() { _ = kill(-pid, SIGKILL) }
        _ = try? waitForEnd(seconds: 10)
    }
}
