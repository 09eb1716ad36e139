import CLinux
import Model
import SystemCalls

/// Keeps a part of the disk free, and serves requests for space. Programs write directly to the
/// files of the tree, where space cannot be freed before they are refused it, so old contents must
/// be removed ahead of them.
package final class Room: @unchecked Sendable {
    /// An O_PATH descriptor of the store.
    private let directory: Int32
    private let settings: Settings
    private let signal = Signal()
    private let poller = BackgroundPoller("room")
    /// Wakes the recorder, which frees space.
    let wake = CallbackSlot<@Sendable () -> Void>()

    /// Guarded by `signal`.
    private var requests = SpaceRequests()
    /// Guarded by `signal`.
    private var isOver = false

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
        let wanted = mark + max(more, signal.look { requests.bytes })
        // Half as much again is freed, so that it is not needed again soon.
        return space.free < wanted ? wanted + mark / 2 - space.free : 0
    }

    /// Whether this many bytes may be downloaded although no program waits for them. What is kept
    /// free for programs stays free.
    package func has(_ bytes: Int64) -> Bool {
        guard isOn, let space = DiskSpace(of: directory) else { return true }
        return space.free - bytes >= mark(space)
    }

    /// Whether writes should pass through the process, which can free space for them. Asked at each
    /// open. A program that writes directly to the disk could fill what is left faster than space
    /// is freed, so this does not depend on the size of the disk.
    package var isTight: Bool {
        guard isOn, let space = DiskSpace(of: directory) else { return false }
        return space.free < 3 * settings.freeBytesKept
    }

    func start() {
        guard isOn else { return }
        poller.start { [weak self] in self?.look() ?? .max / 2 }
    }

    /// From now on no program waits for space.
    func endWaiting() { signal.change { isOver = true } }

    func stop() {
        poller.stop()
        endWaiting()
    }

    /// Something was written or may have become removable.
    func poke() {
        guard isOn else { return }
        signal.change { requests.addNews() }
        poller.poke()
    }

    /// The recorder has changed what is removable.
    func changed() { signal.change { requests.addNews() } }

    /// Checks the free space. Returns the time of the next check, before the disk could be full.
    private func look() -> Int64 {
        guard let space = DiskSpace(of: directory) else { return .max / 2 }
        let mark = mark(space)
        let now = cl_clock_monotonic_ns()
        if space.free < mark { wake.current?() }
        // Assumes that programs write at most one byte in a nanosecond.
        return now + min(max(space.free - mark, 50_000_000), 20_000_000_000)
    }

    /// Frees space for a program that was refused this many bytes, until `deadline` (monotonic
    /// nanoseconds). Blocks.
    func make(_ bytes: Int64, until deadline: Int64) -> SpaceRequests.Answer {
        guard isOn else { return .refused }
        let now = cl_clock_monotonic_ns()
        let request = signal.change { isOver ? nil : requests.ask(for: bytes, at: now) }
        guard let request else {
            // Somebody else may have made room since the last search.
            let free = DiskSpace(of: directory)?.free ?? 0
            return free > max(bytes, Room.bytesTaken) ? .enough : .refused
        }
        wake.current?()
        var answer: SpaceRequests.Answer?
        _ = signal.wait(until: deadline) {
            answer = requests.takeAnswer(to: request)
            return answer != nil || isOver
        }
        if answer == nil { signal.change { requests.withdraw(request) } }
        return answer ?? .refused
    }

    /// Runs `body`, which needs this many bytes of disk space. If there is not enough space, frees
    /// some by removing old contents and tries again, unless nothing can be removed. Blocks
    /// meanwhile, so no thread that serves all requests may call it.
    package func withRoom<Result>(
        for bytes: Int64 = 0, _ body: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.roomSeconds)
        var triesLeft = Room.triesMax
        while true {
            do throws(Errno) { return try body() } catch {
                guard error == .noSpace else { throw error }
                switch make(bytes, until: deadline) {
                // Other programs may take what was freed.
                case .freed: break
                case .enough where triesLeft > 0: triesLeft -= 1
                case .enough, .refused: throw error
                }
            }
        }
    }

    /// How often it is tried again when there seems to be enough space.
    private static let triesMax = 8

    func begin() -> SpaceRequests.Search {
        signal.look { requests.begin(at: cl_clock_monotonic_ns()) }
    }

    /// Ends a search. Waiting programs try again, or learn that there is no space.
    func end(_ search: SpaceRequests.Search, _ finding: SpaceRequests.Finding) {
        let now = cl_clock_monotonic_ns()
        signal.change { requests.end(search, finding, at: now) }
    }

    /// Ignores requests for more than all that could be removed, so that nothing is removed in
    /// vain.
    func ignoreRequests(beyond freeable: () throws(VolumeError) -> Int64) throws(VolumeError) {
        let bytes = signal.look { requests.bytes }
        guard bytes > Room.bytesTaken, let space = DiskSpace(of: directory) else { return }
        let available = space.free + (try freeable())
        signal.change { requests.ignore(beyond: available) }
    }

    /// Below this, the removable bytes are not counted.
    private static let bytesTaken: Int64 = 1 << 16

    /// Whether a program waits for space.
    var isAwaited: Bool { signal.look { requests.isAwaited } }

    /// Whether the last search found nothing.
    var hasFailed: Bool { signal.look { requests.hasFailed } }

    /// Whether it is time to search for something to remove.
    var isDue: Bool {
        let now = cl_clock_monotonic_ns()
        return signal.look { requests.isDue(at: now) }
    }

    /// When to search for waiting programs (monotonic nanoseconds); nil if none waits.
    var due: Int64? { signal.look { requests.due } }
}
