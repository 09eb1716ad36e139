import CLinux
import Foundation
import Glibc

/// A volume that `concord mount --foreground` mounts for a test, as a child process. Store and
/// mount point are in a temporary directory, which is removed at the end. Leaving anything behind
/// is an error.
package final class MountedVolume {
    package let path: String
    package private(set) var store: String
    package var options: [String]
    /// Variables that are added to the daemon's environment from the next mount on.
    package var environment: [String: String] = [:]
    private let home: TemporaryDirectory
    private var daemon: ChildProcess?

    /// Mounts a new volume, or the one in `store`.
    package init(
        store: String? = nil, options: [String] = [], environment: [String: String] = [:]
    ) throws {
        home = try TemporaryDirectory("volume")
        path = "\(home.path)/mount"
        self.store = store ?? "\(home.path)/store"
        self.options = options
        self.environment = environment
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
        try mount()
    }

    /// Mounts a volume while `body` runs. Throws also when it cannot be ended properly.
    package static func with<Value>(
        store: String? = nil, options: [String] = [], environment: [String: String] = [:],
        _ body: (MountedVolume) throws -> Value
    ) throws -> Value {
        let volume = try MountedVolume(
            store: store, options: options, environment: environment)
        do {
            let value = try body(volume)
            try volume.unmount()
            return value
        } catch {
            volume.cleanUp()
            throw SupportError("\(error)\nThe daemon said:\n\(volume.said)")
        }
    }

    deinit { cleanUp() }

    /// The working tree, which has plain files.
    package var tree: String { "\(store)/tree" }

    package var pid: pid_t { daemon?.pid ?? 0 }

    /// Whether the daemon has ended, for example because it was killed.
    package var isDead: Bool { daemon?.hasEnded() ?? true }

    /// The last part of what the daemon wrote to its standard output and error.
    package var said: String {
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return String(text.suffix(4_000))
    }

    private var log: String { "\(home.path)/log" }

    /// The bytes of memory that the daemon has had at most.
    package var mostMemory: Int {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
            let line = text.split(separator: "\n").first { $0.hasPrefix("VmHWM") } ?? ""
            guard let kilobytes = Int(line.filter(\.isNumber)) else {
                throw SupportError("the memory of process \(pid) is unknown")
            }
            return kilobytes << 10
        }
    }

    /// Stops the daemon (SIGSTOP) and returns when none of its threads can take a request any more.
    package func suspend() throws {
        _ = kill(pid, SIGSTOP)
        let tasks = "/proc/\(pid)/task"
        try wait(for: "the daemon to stop") {
            let threads = try FileManager.default.contentsOfDirectory(atPath: tasks)
            return try threads.allSatisfy {
                try String(contentsOfFile: "\(tasks)/\($0)/status", encoding: .utf8)
                    .contains("State:\tT")
            } ? true : nil
        }
    }

    /// Lets the daemon continue (SIGCONT).
    package func resume() { _ = kill(pid, SIGCONT) }

    package func mount(_ more: String...) throws {
        let log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer {
            close(log)
            close(null)
        }
        var arguments = ["mount", "--foreground", "--store", store] + more
        if !options.isEmpty { arguments += ["-o", options.joined(separator: ",")] }
        let daemon = try ChildProcess(
            Programs.concord, arguments + [path], environment: environment, directory: "/",
            input: null, output: log, errors: log)
        self.daemon = daemon
        // The dead mount of a killed daemon is in the table, too, so only an answer counts.
        try wait(seconds: 60, for: "the mount at \(path); the daemon said: \(said)") {
            if daemon.hasEnded() {
                throw SupportError("concord ended with \(daemon.status ?? -1): \(said)")
            }
            return try MountTable.isMounted(path) && answers() ? true : nil
        }
    }

    /// Asks the daemon itself, because stat(2) of a dead mount is answered from the kernel's cache.
    private func answers() -> Bool {
        var space = statvfs()
        var status = stat()
        var parent = stat()
        return statvfs(path, &space) == 0 && stat(path, &status) == 0
            && stat(home.path, &parent) == 0 && status.st_dev != parent.st_dev
    }

    /// Unmounts like umount(8). The daemon must then end by itself with success.
    package func unmount() throws {
        // Another process may still have a file open for a moment: an indexer, a daemon that ends.
        try wait(seconds: 10, for: "\(path) to be unmounted (busy?)") {
            umount2(path, 0) == 0 || errno == EINVAL ? true : nil
        }
        try waitForDaemon()
    }

    /// Asks the daemon to end, like systemd.
    package func terminate(_ signal: Int32 = SIGTERM) throws {
        daemon?.send(signal)
        try waitForDaemon()
    }

    private func waitForDaemon() throws {
        guard let status = try daemon?.waitForEnd(seconds: 60) else { return }
        daemon = nil
        if status != 0 { throw SupportError("the daemon ended with \(status): \(said)") }
        if try MountTable.isMounted(path) { throw SupportError("\(path) is still mounted") }
    }

    /// Returns when everything that was saved is recorded and on the disk.
    package func waitForDisk() throws {
        try Programs.fsctl("wait", "--durable", "disk", path).succeed()
    }

    package func remount() throws {
        try unmount()
        try mount()
    }

    /// Kills the daemon without any warning, and leaves the dead mount behind.
    package func kill9() throws {
        daemon?.send(SIGKILL)
        try waitForDeath()
    }

    /// Waits for a daemon that was killed.
    package func waitForDeath() throws {
        _ = try daemon?.waitForEnd(seconds: 30)
        daemon = nil
    }

    /// Moves the store of a volume that is not mounted.
    package func moveStore(to path: String) throws {
        try Command("mv", "-T", store, path).succeed()
        store = path
    }

    /// Removes exactly this mount and this daemon, whatever their state is.
    package func cleanUp() {
        while (try? MountTable.isMounted(path)) == true {
            if umount2(path, Int32(MNT_DETACH)) != 0 { break }
        }
        // After the mount was detached, the daemon ends by itself unless something is wrong with
        // it.
        if let daemon, (try? daemon.waitForEnd(seconds: 5)) == nil { daemon.killGroup() }
        daemon = nil
    }
}
