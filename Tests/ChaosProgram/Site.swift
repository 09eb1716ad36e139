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
    private var absences = 0
    private var hubCameBack = false
    private(set) var isOffline = false
    private(set) var isSignedOut = false
    private var isAtOtherHub = false
    /// Whether the hub has revoked a token of the device since the round began, because it signed
    /// out. A store that comes back, or a copy that the hub does not know yet, still has it.
    private var hasSignedOut = false
    /// Whether its store came back from a copy in this round. A device whose clock says that its
    /// token is a week old renews it, and the one in the copy ends with the next renewal.
    private var hasComeBack = false
    /// Whether a copy of the store was made in this round. A token that is a week old is renewed by
    /// both, and then only one of the two new ones is valid.
    private var isCopied = false
    /// The device of which this one is a copy.
    private let original: Site?
    let clock: ShiftedClock
    private(set) var isStopped = false
    private let disk: LossyDisk
    private var filler: String { "\(disk.path)/filler" }
    private let hub: HubProcess
    private let hubClock: ShiftedClock
    /// Whether it may have got a token while the hub's clock was so far behind that the token's end
    /// has passed when the clock is right again.
    private var hasEarlyToken = false
    /// Where visitors of links reach the hub.
    var hubAddress: String { hub.address }
    /// The proxy's address, and that of the device of which this one is a copy.
    private let addresses: Set<String>

    init(_ index: Int, hub: HubProcess, hubClock: ShiftedClock) throws {
        name = "dev\(index)"
        self.hub = hub
        self.hubClock = hubClock
        proxy = try Proxy(to: hub.port)
        addresses = [proxy.address]
        original = nil
        disk = try LossyDisk(megabytes: 2_000)
        clock = try ShiftedClock()
        volume = try MountedVolume(
            store: "\(disk.path)/store", options: ["name=team"], environment: clock.environment)
        programs = DispatchQueue(label: name)
        admitUsers()
        try signIn()
    }

    /// A device with a copy of another one's store. The other one must not run now.
    init(_ index: Int, copying other: Site) throws {
        name = "dev\(index)"
        hub = other.hub
        hubClock = other.hubClock
        proxy = try Proxy(to: hub.port)
        addresses = other.addresses.union([proxy.address])
        original = other
        disk = try LossyDisk(megabytes: 2_000)
        // All machines were suspended for the same time, which the clock of a new one must count.
        clock = try ShiftedClock()
        clock.suspended = other.clock.suspended
        try Command("cp", "-a", other.volume.store, "\(disk.path)/store").succeed()
        // The copy is mounted as on another machine: two mounts of one volume would have the same
        // control socket.
        try Command(
            "sqlite3", "\(disk.path)/store/journal.sqlite",
            "UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'volume'"
        ).succeed()
        volume = try MountedVolume(
            store: "\(disk.path)/store", options: ["name=team"], environment: clock.environment)
        programs = DispatchQueue(label: name)
        admitUsers()
        lookWhichHub()
    }

    /// Lets ordinary users reach the mount point, which is in a temporary directory.
    private func admitUsers() {
        chmod(URL(filePath: volume.path).deletingLastPathComponent().path, 0o711)
    }

    /// A command for `fsctl` with the device's clock.
    func fsctl(_ words: [String]) -> Command {
        var command = Command(Programs.fsctl, arguments: words)
        command.environment = clock.environment
        return command
    }

    /// The number of faults so far that can make programs fail.
    var faultCount: Int { condition.withLock { faults } }

    /// What can make a program of the device fail now.
    var circumstances: Circumstances {
        let (faults, absences) = condition.withLock { (self.faults, self.absences) }
        return Circumstances(faults: faults, absences: absences, isFull: isFull)
    }

    /// Returns the circumstances of that moment, from which on a fault explains an error.
    @discardableResult func waitUntilUp() -> Circumstances {
        let (faults, absences) = condition.withLock {
            while !isUp { condition.wait() }
            return (self.faults, self.absences)
        }
        return Circumstances(faults: faults, absences: absences, isFull: isFull)
    }

    func kill() throws {
        noteEnd()
        try volume.kill9()
    }

    private func noteEnd() {
        condition.withLock {
            isUp = false
            faults += 1
            absences += 1
        }
    }

    func start() throws {
        guard condition.withLock({ !isUp }) else { return }
        try volume.mount()
        condition.withLock {
            isUp = true
            condition.broadcast()
        }
    }

    /// Ends the daemon in order to change its store. A start follows.
    private func takeDown() throws {
        try kill()
        umount2(volume.path, Int32(MNT_DETACH))
    }

    func moveStore() throws {
        try takeDown()
        let (here, there) = ("\(disk.path)/store", "\(disk.path)/moved/store")
        try Command("mkdir", "-p", "\(disk.path)/moved").succeed()
        try volume.moveStore(to: volume.store == here ? there : here)
        try start()
    }

    /// The machine is off for this time.
    func sleep(seconds: Int) throws {
        let wasUp = condition.withLock { isUp }
        try takeDown()
        clock.suspended += seconds
        if wasUp { try start() }
    }

    /// Returns a further device with a copy of the store, as it is after a kill.
    func copied(as index: Int) throws -> Site {
        try takeDown()
        defer { try? start() }
        isCopied = true
        return try Site(index, copying: self)
    }

    /// Tries to mount the volume without a part of its store. Returns whether that was refused, or
    /// the part held nothing, so that it can be made again.
    func isRefused(without part: StorePart) throws -> Bool {
        try takeDown()
        if try isEmpty(part) {
            try start()
            return true
        }
        let names: [String] =
            switch part {
            case .tree: ["tree"]
            case .chunks: ["chunks"]
            case .journal: ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"]
            }
        let places = names.map { "\(volume.store)/\($0)" }
            .filter { FileManager.default.fileExists(atPath: $0) }
        for place in places { try Command("mv", "-T", place, place + ".aside").succeed() }
        let isMounted = (try? volume.mount()) != nil
        if isMounted { try takeDown() }
        for place in places {
            try Command("rm", "-rf", "--one-file-system", place).succeed()
            try Command("mv", "-T", place + ".aside", place).succeed()
        }
        try start()
        return !isMounted
    }

    private func isEmpty(_ part: StorePart) throws -> Bool {
        let names = { try FileManager.default.contentsOfDirectory(atPath: $0) }
        return switch part {
        case .tree: try names("\(volume.store)/tree").isEmpty
        case .chunks: try !names("\(volume.store)/chunks").contains { $0.hasSuffix(".pack") }
        case .journal: false
        }
    }

    /// Everything is lost that no sync has written to the disk.
    func losePower() throws {
        guard condition.withLock({ isUp }) else { return }
        noteEnd()
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

    private var isFull: Bool { access(filler, F_OK) == 0 }

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
        _ = try? fsctl([offline ? "offline" : "online", "--at", volume.path]).run()
    }

    /// Whether the device is signed in to another hub.
    var isElsewhere: Bool { condition.withLock { isAtOtherHub } }

    /// Throws if the hub cannot be reached.
    /// - Parameter other: Another hub, which is reached without the proxy; nil for the usual one.
    func signIn(to other: HubProcess? = nil) throws {
        let address = other?.address ?? proxy.address
        try fsctl([
            "signin", address, "--code", try (other ?? hub).invite(), "--device", name, "--at",
            volume.path,
        ]).succeed()
        condition.withLock { isAtOtherHub = other != nil }
        hasEarlyToken = other == nil && hubClock.ahead < Site.farBehind
        isSignedOut = false
        isOffline = false
    }

    private static let farBehind = -7 * 86_400

    /// To be called after a clock was set. A device whose clock is as wrong as the hub's cannot
    /// know that it must not renew its token.
    func noteClocks() {
        if max(clock.ahead, hubClock.ahead) < Site.farBehind { hasEarlyToken = true }
    }

    /// Does nothing while the daemon is stopped, or at the other hub already.
    func signIn(toOther other: HubProcess) throws {
        guard condition.withLock({ isUp && !isAtOtherHub }), !isStopped else { return }
        try signOut()
        try signIn(to: other)
    }

    /// Does nothing while the daemon is stopped, or signed out already.
    func signOut() throws {
        guard condition.withLock({ isUp }), !isStopped, !isSignedOut else { return }
        condition.withLock { faults += 1 }
        try fsctl(["signout", "--force", "--at", volume.path]).succeed()
        isSignedOut = true
        hasSignedOut = true
        condition.withLock { isAtOtherHub = false }
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

    /// Whether the hub refuses the device's token, as one that came back from a backup does if the
    /// device has signed in or out, or a copy of it was made, since then. A person has to sign in
    /// again.
    var isRefusedByHub: Bool {
        let hub = (try? status())?["hub"] as? VolumeLine.Object
        return !isSignedOut && hub?["state"] as? String == "signed out"
    }

    /// Whether a program may be refused what the hub has. After a start, the daemon may hear that
    /// from the hub for a program first, and then for itself.
    var mayRefusePrograms: Bool { condition.withLock { hubCameBack } || isRefusedByHub }

    /// The hub came back as an older copy of itself, which may not know the device's token.
    func noteOlderHub() { condition.withLock { hubCameBack = true } }

    /// Asks the daemon to which hub its store belongs: a store that comes back, or is a copy, has
    /// what was so when it was kept.
    func lookWhichHub() {
        guard let line = try? VolumeLine(mountPoint: volume.path),
            let identity = try? line.ask("identity")
        else { return }
        let address = identity["hub"] as? String
        hasComeBack = true
        isSignedOut = address == nil
        isOffline = identity["offline"] as? Bool == true
        condition.withLock { isAtOtherHub = address.map { !addresses.contains($0) } ?? false }
    }

    /// Whether the hub may refuse the device although no hub came back.
    var mayBeRefused: Bool {
        hasSignedOut || hasComeBack || hasEarlyToken || isCopied || original != nil
    }

    /// Ends what exists for one round. Clocks of devices are wrong until then, because a device
    /// does some work only when it is idle.
    func beginRound() {
        condition.withLock { hubCameBack = false }
        clock.ahead = 0
        hasSignedOut = false
        hasComeBack = false
        isCopied = false
    }

    func status() throws -> VolumeLine.Object {
        let line = try VolumeLine(mountPoint: volume.path)
        return try line.ask("status")
    }

    /// What the device says about documents that need somebody's attention; nil if there are none.
    var problems: String? {
        let problems = (try? status()).flatMap(DeviceStatus.init)?.problems ?? ""
        return problems.isEmpty ? nil : problems
    }

    func end() {
        volume.cleanUp()
        proxy.end()
    }
}
