import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Contents on demand: lets requests wait for bytes from the hub. A waiting request holds no
/// thread; it ends by a signal (EINTR) or when its time is over (ETIMEDOUT).
final class ContentFetcher: Sendable {
    private let volume: Volume
    private let parking: Parking
    private let timers: TimerQueue

    init(_ volume: Volume, parking: Parking, timers: TimerQueue) {
        self.volume = volume
        self.parking = parking
        self.timers = timers
    }

    /// The state of one wait, which is released when the wait ends.
    private final class ContentsWait: Sendable {
        struct State {
            var want: UInt64?
            var deadline: UInt64?
            var isOver = false
        }

        let file: PlaceholderFile
        let state = Mutex(State())

        init(_ file: PlaceholderFile) { self.file = file }
    }

    /// Calls `go` when the bytes are present, perhaps at once. Otherwise answers the request with
    /// an error and calls `fail`.
    func awaitContents(
        _ request: Request, _ need: PlaceholderFile.Need, of file: PlaceholderFile,
        else fail: @escaping @Sendable () -> Void = {}, _ go: @escaping @Sendable (Request) -> Void
    ) {
        let wait = ContentsWait(file)
        let hold = parking.hold(request) { [self] in
            stop(wait)
            fail()
        }
        guard let hold else { return fail() }
        let end: @Sendable (Errno?) -> Void = { [self] error in
            guard hold.end() else { return }
            stop(wait)
            guard let error else { return go(request) }
            request.refuse(error)
            fail()
        }
        let parking = parking
        let seconds = volume.settings.fetchSeconds
        let deadline = timers.after(seconds: seconds) {
            parking.soon { end(Errno(ETIMEDOUT)) }
        }
        let want = volume.hydration.want(need, of: file) { error in
            parking.soon { end(error.map { Errno($0) }) }
        }
        let isOver = wait.state.withLock { state in
            (state.want, state.deadline) = (want, deadline)
            return state.isOver
        }
        if isOver { stop(wait) }
        if want == nil { end(nil) }
    }

    private func stop(_ wait: ContentsWait) {
        let state = wait.state.withLock { state in
            state.isOver = true
            return state
        }
        if let want = state.want { wait.file.cancel(want) }
        if let deadline = state.deadline { timers.cancel(deadline) }
    }

    /// Calls `go` a moment later, unless the request is interrupted.
    func retry(
        _ request: Request, seconds: Double = 0.005, else fail: @escaping @Sendable () -> Void,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        guard let hold = parking.hold(request, interrupted: fail) else { return fail() }
        soon(after: seconds) { if hold.end() { go(request) } }
    }

    /// Calls `body` later on a parking thread. A signal does not interrupt this.
    func soon(after seconds: Double, _ body: @escaping @Sendable () -> Void) {
        let parking = parking
        timers.after(seconds: seconds) { parking.soon(body) }
    }

    /// Whether the file is no placeholder. If it is one, returns false, and calls `again` when it
    /// is complete.
    func haveWhole(
        _ request: Request, _ file: SharedDescriptor,
        _ again: @escaping @Sendable (Request) -> Void
    ) throws(Errno) -> Bool {
        switch try volume.hydration.use(file.raw, FileSnapshot(try file.status())) {
        case .here: return true
        case .evicting: retry(request, else: {}, again)
        case .absent(let contents):
            let end: @Sendable () -> Void = { self.volume.hydration.endUse(contents) }
            awaitContents(request, .finish, of: contents, else: end) { request in
                end()
                again(request)
            }
        }
        return false
    }

    /// Runs `body` on a parking thread, where it must not wait for the network. If that is not
    /// sufficient, runs it again on a thread that may wait.
    func parkReaching<Result: Sendable>(
        _ request: Request, inLine line: SerialQueue? = nil,
        _ body: @escaping @Sendable (_ locally: Bool) throws(Errno) -> Result,
        revert: @escaping @Sendable (Result) -> Void = { _ in },
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        parking.park(
            request, on: .questions, inLine: line,
            { () throws(Errno) -> Result? in
                do throws(Errno) {
                    return try body(true)
                } catch {
                    guard error.code == ENETUNREACH else { throw error }
                    return nil
                }
            }, revert: { if let result = $0 { revert(result) } },
            answer: { [self] request, result in
                if let result { return answer(request, result) }
                reach(request, body, revert: revert, answer: answer)
            })
    }

    private func reach<Result: Sendable>(
        _ request: Request, _ body: @escaping @Sendable (Bool) throws(Errno) -> Result,
        revert: @escaping @Sendable (Result) -> Void,
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        guard let hold = parking.hold(request, interrupted: {}) else { return }
        let deadline = timers.after(seconds: volume.settings.fetchSeconds) {
            if hold.end() { request.refuse(Errno(ETIMEDOUT)) }
        }
        volume.hydration.remotely { [self] in
            defer { timers.cancel(deadline) }
            do throws(Errno) {
                let result = try body(false)
                if hold.end() { answer(request, result) } else { revert(result) }
            } catch {
                if hold.end() { request.refuse(error) }
            }
        }
    }

    /// Fetches the placeholders below a directory that becomes a package, and then calls `go`.
    func fetchAll(
        below directory: SharedDescriptor, for request: Request,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        parking.park(
            request, on: .questions,
            { () throws(Errno) in try PlaceholderMark.placeholders(below: directory.raw) },
            answer: { self.fetch($1[...], below: directory, for: $0, go) })
    }

    /// Fetches one file after the other.
    private func fetch(
        _ paths: ArraySlice<[Name]>, below directory: SharedDescriptor, for request: Request,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        request.answer { () throws(Errno) in
            var rest = paths
            while let path = rest.first {
                let left = rest
                if let found = try? openBeneath(path, from: directory.raw, flags: Flag.path) {
                    let isHere = try haveWhole(
                        request, SharedDescriptor(owning: found.release())
                    ) {
                        self.fetch(left, below: directory, for: $0, go)
                    }
                    guard isHere else { return }
                }
                rest = rest.dropFirst()
            }
            go(request)
        }
    }
}

extension Handle {
    /// The part of a read that may not be present on this device.
    func absentRange(_ offset: Int64, _ length: Int) -> Range<Int64>? {
        guard let contents, !contents.isComplete, offset >= 0, offset < contents.size, length > 0
        else { return nil }
        return offset..<min(contents.size, offset + Int64(length))
    }
}
