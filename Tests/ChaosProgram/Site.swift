import Foundation
import Glibc
import Support
import Synchronization

/// A device: a real mount, its line to the hub, and what has been done to it.
final class Site: @unchecked Sendable {
    let name: String
    let volume: MountedVolume
    let proxy: Proxy
    /// What its programs do, one after the other.
    let programs: DispatchQueue
    private let condition = NSCondition()
    private var isUp = true
    private var faults = 0
    private(set) var isOffline = false
    private var isStopped = false

    init(_ index: Int, hub: HubProcess) throws {
        name = "dev\(index)"
        proxy = try Proxy(to: hub.port)
        volume = try MountedVolume(options: ["name=team"])
        programs = DispatchQueue(label: name)
        try Programs.fsctl(
            "signin", "http://127.0.0.1:\(proxy.port)", "--code", try hub.invite(), "--device",
            name, "--at", volume.path
        ).succeed()
    }

    /// How often something was done to it that lets programs fail.
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

    func signal(_ signal: Int32) {
        guard condition.withLock({ isUp }) else { return }
        isStopped = signal == SIGSTOP
        if isStopped { condition.withLock { faults += 1 } }
        _ = Glibc.kill(volume.pid, signal)
    }

    /// Does nothing while the daemon is stopped. It could not answer, and the actor that waited for
    /// the answer is the one that would let the daemon continue.
    func set(offline: Bool) {
        guard condition.withLock({ isUp }), !isStopped else { return }
        isOffline = offline
        _ = try? Programs.fsctl(offline ? "offline" : "online", "--at", volume.path).run()
    }

    /// Whether its daemon has ended though nobody ended it.
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
