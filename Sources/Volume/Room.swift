import CLinux
import Model

/// How much of the disk is to stay free, and who waits for that. Programs write straight to the
/// files below, where nobody can free space before they are refused it: so old contents have to go
/// ahead of them.
final class Room: @unchecked Sendable {
    /// O_PATH of the store.
    private let directory: Int32
    private let settings: Settings
    private let signal = Signal()
    private let lookout = Lookout("room")
    /// Wakes who frees space.
    let wake = Hook<@Sendable () -> Void>()

    // Guarded by `signal`.
    private var asked: UInt64 = 0
    private var answered: UInt64 = 0
    /// Bytes that were refused since the last answer.
    private var refused: Int64 = 0
    private var isOver = false
    /// Monotonic nanoseconds: nothing was found that could go, so that nobody need ask before.
    private var nextTry: Int64 = 0
    /// How often in a row nothing was found.
    private var failures = 0
    /// Monotonic nanoseconds: looking in vain takes long in a large store.
    private var notBefore: Int64 = 0

    init(directory: Int32, settings: Settings) {
        self.directory = directory
        self.settings = settings
    }

    private var isOn: Bool { settings.freeShare > 0 }

    /// What is to stay free, in bytes.
    private func mark(_ space: DiskSpace) -> Int64 {
        min(settings.freeBytesKept, Int64(Double(space.total) * settings.freeShare))
    }

    /// Bytes that are to be freed now, with `more` to be written: 0 while there is room.
    func shortage(for more: Int64 = 0) -> Int64 {
        guard isOn, let space = DiskSpace(of: directory) else { return 0 }
        let mark = mark(space)
        let wanted = mark + max(more, signal.look { refused })
        // Somewhat more than is needed, so that it is not soon to do again.
        return space.free < wanted ? wanted + mark / 2 - space.free : 0
    }

    /// Whether so many bytes may come here that no program waits for: what is kept free for those
    /// that write stays free.
    func has(_ bytes: Int64) -> Bool {
        guard isOn, let space = DiskSpace(of: directory) else { return true }
        return space.free - bytes >= mark(space)
    }

    /// Whether writes had better pass through the process, which can free space for them. Asked
    /// at each opening: programs fill a small disk faster than anybody looks.
    var isTight: Bool {
        guard isOn, let space = DiskSpace(of: directory) else { return false }
        return space.free < 3 * mark(space)
    }

    func start() {
        guard isOn else { return }
        lookout.start { [weak self] in self?.look() ?? .max / 2 }
    }

    func stop() {
        lookout.stop()
        signal.change { isOver = true }
    }

    /// Something was written, or may give way.
    func poke() {
        guard isOn else { return }
        let soon = cl_clock_monotonic_ns() + 250_000_000
        signal.change { (failures, nextTry) = (0, max(notBefore, min(nextTry, soon))) }
        lookout.poke()
    }

    /// Again before the disk could be full.
    private func look() -> Int64 {
        guard let space = DiskSpace(of: directory) else { return .max / 2 }
        let mark = mark(space)
        let now = cl_clock_monotonic_ns()
        if space.free < mark { wake.current?() }
        // A nanosecond for each byte.
        return now + min(max(space.free - mark, 50_000_000), 20_000_000_000)
    }

    /// Frees space for a program that was refused so many bytes. False when nothing could go.
    /// Blocks, for a few seconds at most.
    func make(_ bytes: Int64) -> Bool {
        guard isOn else { return false }
        let now = cl_clock_monotonic_ns()
        let ticket = signal.change { () -> UInt64? in
            guard now >= nextTry, !isOver else { return nil }
            asked += 1
            refused = max(refused, bytes)
            return asked
        }
        guard let ticket else { return false }
        wake.current?()
        let deadline = now + Timestamp.span(seconds: settings.roomSeconds)
        _ = signal.wait(until: deadline) { answered >= ticket || isOver }
        return signal.look { answered >= ticket && nextTry == 0 }
    }

    /// Called by who frees space: who waits for it tries again, or hears that there is none.
    /// `since`: when he began to look (monotonic nanoseconds).
    func answer(isFreed: Bool, since start: Int64) {
        let now = cl_clock_monotonic_ns()
        signal.change {
            (answered, refused) = (asked, 0)
            failures = isFreed ? 0 : min(failures + 1, 5)
            let pause = Timestamp.span(seconds: 0.25 * Double(1 << failures))
            notBefore = isFreed ? 0 : now + 20 * (now - start)
            nextTry = isFreed ? 0 : max(notBefore, now + pause)
        }
    }

    /// Whether nothing was found that could go, since something was written last.
    var hasFailed: Bool { signal.look { failures > 0 } }

    /// Whether it is time to look for what can go.
    var isDue: Bool { signal.look { asked > answered || cl_clock_monotonic_ns() >= nextTry } }
}
