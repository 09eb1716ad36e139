import CLinux
import Model

/// Keeps a part of the disk free, and serves requests for space. Programs write directly to the
/// files of the tree, where space cannot be freed before they are refused it, so old contents must
/// be removed ahead of them.
final class Room: @unchecked Sendable {
    /// An O_PATH descriptor of the store.
    private let directory: Int32
    private let settings: Settings
    private let signal = Signal()
    private let lookout = Lookout("room")
    /// Wakes the recorder, which frees space.
    let wake = Hook<@Sendable () -> Void>()

    // The following properties are guarded by `signal`. `asked` and `answered` are numbers of
    // requests.
    private var asked: UInt64 = 0
    private var answered: UInt64 = 0
    /// The last request for which space was freed.
    private var granted: UInt64 = 0
    /// The largest number of bytes that a program was refused, and its request.
    private var refused: (bytes: Int64, request: UInt64) = (0, 0)
    private var isOver = false
    /// Counts events that may have made contents removable.
    private var news: UInt64 = 0
    /// The value of `news` at the last search, if that found nothing to remove.
    private var vainNews: UInt64?
    /// No search starts before this monotonic time, because a search in vain takes long in a large
    /// store.
    private var notBefore: Int64 = 0
    /// Until this monotonic time, requests are refused at once if the last search found nothing and
    /// nothing has happened since.
    private var vainUntil: Int64 = 0

    init(directory: Int32, settings: Settings) {
        self.directory = directory
        self.settings = settings
    }

    private var isOn: Bool { settings.freeShare > 0 }

    /// How many bytes are to stay free.
    private func mark(_ space: DiskSpace) -> Int64 {
        min(settings.freeBytesKept, Int64(Double(space.total) * settings.freeShare))
    }

    /// How many bytes must be freed now if `more` bytes are to be written; 0 if there is enough
    /// space.
    func shortage(for more: Int64 = 0) -> Int64 {
        guard isOn, let space = DiskSpace(of: directory) else { return 0 }
        let mark = mark(space)
        let wanted = mark + max(more, signal.look { refused.bytes })
        // Half as much again is freed, so that it is not needed again soon.
        return space.free < wanted ? wanted + mark / 2 - space.free : 0
    }

    /// Whether this many bytes may be downloaded although no program waits for them. What is kept
    /// free for programs stays free.
    func has(_ bytes: Int64) -> Bool {
        guard isOn, let space = DiskSpace(of: directory) else { return true }
        return space.free - bytes >= mark(space)
    }

    /// Whether writes should pass through the process, which can free space for them. Asked at each
    /// open, because programs can fill a small disk quickly.
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

    /// Something was written or may have become removable.
    func poke() {
        guard isOn else { return }
        signal.change { news += 1 }
        lookout.poke()
    }

    /// Checks the free space. Returns the time of the next check, before the disk could be full.
    private func look() -> Int64 {
        guard let space = DiskSpace(of: directory) else { return .max / 2 }
        let mark = mark(space)
        let now = cl_clock_monotonic_ns()
        if space.free < mark { wake.current?() }
        // Assumes that programs write at most one byte in a nanosecond.
        return now + min(max(space.free - mark, 50_000_000), 20_000_000_000)
    }

    /// Frees space for a program that was refused this many bytes. Returns false if nothing could
    /// be removed, or not before `deadline` (monotonic nanoseconds). Only a search that begins
    /// after the call answers it. Blocks.
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

    /// A search for something to remove. It answers the requests made before it began; later ones
    /// may be due to something that it has not seen.
    struct Look {
        fileprivate let request: UInt64
        fileprivate let news: UInt64
        fileprivate let start: Int64
    }

    func begin() -> Look {
        signal.look { Look(request: asked, news: news, start: cl_clock_monotonic_ns()) }
    }

    /// Ends a search. Waiting programs try again, or learn that there is no space.
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

    /// Refuses a request for more than all that could be removed, so that nothing is removed in
    /// vain.
    func giveUpRefused(beyond freeable: () throws(VolumeError) -> Int64) throws(VolumeError) {
        let bytes = signal.look { refused.bytes }
        guard bytes > Room.bytesTaken, let space = DiskSpace(of: directory) else { return }
        guard bytes > space.free + (try freeable()) else { return }
        signal.change { refused = (0, 0) }
    }

    /// Below this, the removable bytes are not counted.
    private static let bytesTaken: Int64 = 1 << 16

    /// Whether a program waits for space.
    var isAwaited: Bool { signal.look { refused.bytes > 0 } }

    /// Whether the last search found nothing.
    var hasFailed: Bool { signal.look { vainNews != nil } }

    /// Whether it is time to search for something to remove.
    var isDue: Bool {
        let now = cl_clock_monotonic_ns()
        return signal.look {
            guard now >= notBefore else { return false }
            return asked > answered || vainNews != news || now >= vainUntil
        }
    }

    /// When to search for waiting programs (monotonic nanoseconds); nil if none waits.
    var due: Int64? { signal.look { asked > answered ? notBefore : nil } }
}
