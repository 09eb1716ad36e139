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
    /// Of the last request for which something was let go.
    private var granted: UInt64 = 0
    /// The largest number of bytes that was refused, and by which request.
    private var refused: (bytes: Int64, request: UInt64) = (0, 0)
    private var isOver = false
    /// Counts what may have made something removable.
    private var news: UInt64 = 0
    /// When the last look found nothing: what had happened before it.
    private var vainNews: UInt64?
    /// Monotonic nanoseconds: looking in vain takes long in a large store.
    private var notBefore: Int64 = 0
    /// Monotonic nanoseconds: nothing was found, and who asks before is told so at once as long as
    /// nothing happens.
    private var vainUntil: Int64 = 0

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
        let wanted = mark + max(more, signal.look { refused.bytes })
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
        signal.change { news += 1 }
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

    /// Frees space for a program that was refused so many bytes. False when nothing could go of
    /// what there was when it asked, or not until `deadline` (monotonic nanoseconds). Blocks.
    func make(_ bytes: Int64, until deadline: Int64) -> Bool {
        guard isOn else { return false }
        let now = cl_clock_monotonic_ns()
        let request = signal.change { () -> UInt64? in
            let isVain = vainNews == news && now < vainUntil
            guard !isVain, !isOver else { return nil }
            asked += 1
            if bytes > refused.bytes { refused = (bytes, asked) }
            return asked
        }
        guard let request else { return false }
        wake.current?()
        _ = signal.wait(until: deadline) { answered >= request || isOver }
        return signal.look { granted >= request }
    }

    /// A look for what can go: it answers those who had asked when it began. Who asks later may do
    /// so because of something that it has not seen.
    struct Look {
        fileprivate let request: UInt64
        fileprivate let news: UInt64
        fileprivate let start: Int64
    }

    func begin() -> Look {
        signal.look { Look(request: asked, news: news, start: cl_clock_monotonic_ns()) }
    }

    /// Called by who frees space: who waits for it tries again, or hears that there is none.
    func answer(_ look: Look, isFreed: Bool) {
        let now = cl_clock_monotonic_ns()
        signal.change {
            answered = look.request
            if isFreed { granted = look.request }
            if refused.request <= look.request { refused = (0, 0) }
            vainNews = isFreed ? nil : look.news
            notBefore = isFreed ? 0 : now + 4 * (now - look.start)
            vainUntil = max(notBefore, now + 1_000_000_000)
        }
    }

    /// A program may ask for more than could ever go: nothing goes for that.
    func giveUpRefused(beyond freeable: () throws(VolumeError) -> Int64) throws(VolumeError) {
        let bytes = signal.look { refused.bytes }
        guard bytes > Room.bytesTaken, let space = DiskSpace(of: directory) else { return }
        guard bytes > space.free + (try freeable()) else { return }
        signal.change { refused = (0, 0) }
    }

    /// So few are not worth counting what could go.
    private static let bytesTaken: Int64 = 1 << 16

    /// Whether a program was refused space and there may be enough of it.
    var isAwaited: Bool { signal.look { refused.bytes > 0 } }

    /// Whether the last look found nothing.
    var hasFailed: Bool { signal.look { vainNews != nil } }

    /// Whether it is time to look for what can go.
    var isDue: Bool {
        let now = cl_clock_monotonic_ns()
        return signal.look {
            guard now >= notBefore else { return false }
            return asked > answered || vainNews != news || now >= vainUntil
        }
    }

    /// When to look for those who wait (monotonic nanoseconds); nil while nobody does.
    var due: Int64? { signal.look { asked > answered ? notBefore : nil } }
}
