import Foundation
import Glibc
import Support
import Synchronization

/// A device: a real mount, its connection to the hub, and the faults that affect it.
final class Site: @unchecked Sendable {
    let name: String
    let volume: MountedVolume
    let proxy: Proxy
    /// The queue on which its programs run, one after another.
    let programs: DispatchQueue
    private let condition = NSCondition()
    private var isUp = true
    private var faults = 0
    private(set) var isOffline = false
    private(set) var isSignedOut = false
    private var isStopped = false
    private let disk: LossyDisk
    private var filler: String { "\(disk.path)/filler" }
    private let hub: HubProcess

    init(_ index: Int, hub: HubProcess) throws {
        name = "dev\(index)"
        self.hub = hub
        proxy = try Proxy(to: hub.port)
        disk = try LossyDisk(megabytes: 2_000)
        volume = try MountedVolume(store: "\(disk.path)/store", options: ["name=team"])
        programs = DispatchQueue(label: name)
        try signIn()
    }

    /// The number of faults so far that can make programs fail.
    var faultCount: Int { condition.withLock { faults } }

    func waitUntilUp() {
        condition.withLock { while !isUp { condition.wait() } }
    }

    func kill() throws {
        condition.withLock {
            isUp = false
            faults += 1
        }
        try volume.kill9()
    }

    func start() throws {
        guard condition.withLock({ !isUp }) else { return }
        try volume.mount()
        condition.withLock {
            isUp = true
            condition.broadcast()
        }
    }

    /// Everything is lost that no sync has written to the disk.
    func losePower() throws {
        guard condition.withLock({ isUp }) else { return }
        condition.withLock {
            isUp = false
            faults += 1
        }
        try disk.cutPower()
        try volume.kill9()
        umount2(volume.path, Int32(MNT_DETACH))
        try disk.restorePower()
        // The machine has not really been restarted.
        _ = try? Command(
            "sqlite3", "\(volume.store)/journal.sqlite",
            "UPDATE meta SET value = 'an earlier one' WHERE key = 'boot'"
        ).run()
    }

    /// Whether a program may be refused space now.
    var isFull: Bool { access(filler, F_OK) == 0 }

    /// Leaves only a little space on the device's disk.
    func fill() throws {
        var space = statvfs()
        guard !isFull, statvfs(disk.path, &space) == 0 else { return }
        let left = 3_000_000
        let bytes = Int(space.f_bavail) * Int(space.f_frsize) - left
        try Command("fallocate", "-l", "\(max(bytes, 1))", filler).succeed()
    }

    func free() { unlink(filler) }

    func signal(_ signal: Int32) {
        guard condition.withLock({ isUp }) else { return }
        isStopped = signal == SIGSTOP
        if isStopped { condition.withLock { faults += 1 } }
        _ = Glibc.kill(volume.pid, signal)
    }

    /// Does nothing while the daemon is stopped, because the daemon could not answer, and this
    /// thread is the one that must let it continue.
    func set(offline: Bool) {
        guard condition.withLock({ isUp }), !isStopped else { return }
        isOffline = offline
        _ = try? Programs.fsctl(offline ? "offline" : "online", "--at", volume.path).run()
    }

    /// Throws if the hub cannot be reached.
    func signIn() throws {
        try Programs.fsctl(
            "signin", "http://127.0.0.1:\(proxy.port)", "--code", try hub.invite(), "--device",
            name, "--at", volume.path
        ).succeed()
        isSignedOut = false
        isOffline = false
    }

    /// Does nothing while the daemon is stopped, or signed out already.
    func signOut() throws {
        guard condition.withLock({ isUp }), !isStopped, !isSignedOut else { return }
        condition.withLock { faults += 1 }
        try Programs.fsctl("signout", "--force", "--at", volume.path).succeed()
        isSignedOut = true
    }

    /// Tries to sign in. If the hub cannot be reached now, the device stays signed out until all
    /// faults end.
    func trySignIn() {
        guard condition.withLock({ isUp }), !isStopped, isSignedOut else { return }
        try? signIn()
    }

    /// Whether the daemon has ended although no action ended it.
    var hasDied: Bool {
        guard condition.withLock({ isUp }) else { return false }
        let status = try? String(contentsOfFile: "/proc/\(volume.pid)/stat", encoding: .utf8)
        return status?.split(separator: ")").last?.hasPrefix(" Z") ?? true
    }

    func status() throws -> VolumeLine.Object {
        let line = try VolumeLine(mountPoint: volume.path)
        return try line.ask("status")
    }

    func end() {
        volume.cleanUp()
        proxy.end()
    }
}
