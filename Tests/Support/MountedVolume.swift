import CLinux
import Foundation
import Glibc

/// A volume mounted for a test by `concord mount --foreground`, our child: store and mount point in
/// a temporary directory, gone at the end. Leaving anything is an error.
package final class MountedVolume {
    package let path: String
    package let store: String
    package var options: [String]
    private let home: TemporaryDirectory
    private var daemon: ChildProcess?

    /// Mounts a new volume, or the one in `store`.
    package init(store: String? = nil, options: [String] = []) throws {
        home = try TemporaryDirectory("volume")
        path = "\(home.path)/mount"
        self.store = store ?? "\(home.path)/store"
        self.options = options
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
        try mount()
    }

    /// Mounts a volume for the length of `body`; throws also when it cannot be ended cleanly.
    package static func with<Value>(
        store: String? = nil, options: [String] = [], _ body: (MountedVolume) throws -> Value
    ) throws -> Value {
        let volume = try MountedVolume(store: store, options: options)
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

    /// The working tree: plain files.
    package var tree: String { "\(store)/tree" }

    package var pid: pid_t { daemon?.pid ?? 0 }

    /// What the daemon wrote to its standard output and error, the last of it.
    package var said: String {
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return String(text.suffix(4_000))
    }

    private var log: String { "\(home.path)/log" }

    package func mount() throws {
        let log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer {
            close(log)
            close(null)
        }
        var arguments = ["mount", "--foreground", "--store", store]
        if !options.isEmpty { arguments += ["-o", options.joined(separator: ",")] }
        let daemon = try ChildProcess(
            Programs.concord, arguments + [path], directory: "/", input: null, output: log,
            errors: log)
        self.daemon = daemon
        // The dead mount of a daemon that was killed is in the table too: only an answer counts.
        try wait(seconds: 60, for: "the mount at \(path); the daemon said: \(said)") {
            if daemon.hasEnded() {
                throw SupportError("concord ended with \(daemon.status ?? -1): \(said)")
            }
            return try MountTable.isMounted(path) && answers() ? true : nil
        }
    }

    /// Asks the daemon itself: a dead mount still answers stat(2) from the kernel's memory.
    private func answers() -> Bool {
        var space = statvfs()
        var status = stat()
        var parent = stat()
        return statvfs(path, &space) == 0 && stat(path, &status) == 0
            && stat(home.path, &parent) == 0 && status.st_dev != parent.st_dev
    }

    /// Ends the mount as umount(8) does; the daemon must then end by itself, well.
    package func unmount() throws {
        // Another process may still hold a file for a moment: an indexer, a daemon that ends.
        try wait(seconds: 10, for: "\(path) to be unmounted (busy?)") {
            umount2(path, 0) == 0 || errno == EINVAL ? true : nil
        }
        try waitForDaemon()
    }

    /// Asks the daemon to end, as systemd does.
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

    /// Returns when all that was saved is recorded and on the disk.
    package func waitForDisk() throws {
        try Programs.fsctl("wait", "--durable", "disk", path).succeed()
    }

    package func remount() throws {
        try unmount()
        try mount()
    }

    /// Kills the daemon as nothing can be prepared for, and leaves the dead mount behind.
    package func kill9() throws {
        daemon?.send(SIGKILL)
        _ = try daemon?.waitForEnd(seconds: 30)
        daemon = nil
    }

    /// Takes away exactly this mount and this daemon, whatever state they are in.
    package func cleanUp() {
        while (try? MountTable.isMounted(path)) == true {
            if umount2(path, Int32(MNT_DETACH)) != 0 { break }
        }
        // Detached, the daemon ends by itself unless something is wrong with it.
        if let daemon, (try? daemon.waitForEnd(seconds: 5)) == nil { daemon.killGroup() }
        daemon = nil
    }
}
