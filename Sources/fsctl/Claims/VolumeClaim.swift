import ArgumentParser
import CLinux
import Control
import Glibc
import Model

/// One claim on items of one volume, from the request to its release.
final class VolumeClaim {
    private enum ConnectionEvent: Sendable {
        case ended(Result<GrantReport, VolumeError>)
        case others([LocksReport.Turn])
    }

    private let places: [MountedPath]
    private let client: CoordinationClient
    private let events: Inbox<ConnectionEvent>
    private static let number = 1
    /// A shorter wait needs no explanation on the terminal.
    private static let noteSeconds = 0.4
    private static let noteIntervalSeconds = 2.0

    /// All places must be on one volume.
    init(on places: [MountedPath]) throws(VolumeError) {
        self.places = places
        events = try Inbox()
        client = try CoordinationClient(socket: places[0].socket, pushed: { _ in }, ended: {})
    }

    /// Waits until the claim is granted. Returns the items' paths at that time, in the order of
    /// `access`.
    func begin(
        _ access: [AccessField], waits: Bool, everywhere: Bool, deadline: Int64?,
        signals: borrowing Signals
    ) throws -> [FilePath] {
        var request = Request(.claim)
        request.claim = VolumeClaim.number
        request.access = access
        request.try = waits ? nil : true
        request.everywhere = everywhere ? true : nil
        client.ask(request) { [events] answer in
            events.put(
                .ended(
                    Result { () throws(VolumeError) in
                        try CoordinationClient.result(answer, as: GrantReport.self)
                    }))
        }
        let report = try outcome(deadline, signals)
        guard report.paths.count == places.count else {
            throw VolumeError(.system, "the volume's daemon granted something else than was asked")
        }
        let root = places[0].mountPoint
        return report.paths.map { root.appending($0.path ?? []) }
    }

    private func outcome(_ deadline: Int64?, _ signals: borrowing Signals) throws -> GrantReport {
        var noteTime = cl_clock_monotonic_ns() + Timestamp.span(seconds: VolumeClaim.noteSeconds)
        var isCancelled = false
        defer { Terminal.clearProgress() }
        while true {
            let now = cl_clock_monotonic_ns()
            if let deadline, now >= deadline, !isCancelled {
                isCancelled = true
                cancel()
            }
            if now >= noteTime {
                askAboutOthers()
                noteTime = now + Timestamp.span(seconds: VolumeClaim.noteIntervalSeconds)
            }
            let next = min(noteTime, isCancelled ? noteTime : deadline ?? noteTime)
            waitForAny(
                of: [events.descriptor, signals.descriptor], seconds: Double(next - now) / 1e9)
            if let signal = signals.take() { throw ArgumentParser.ExitCode(128 + signal.number) }
            for item in events.take() {
                switch item {
                case .others(let turns): Terminal.note(VolumeClaim.note(turns))
                case .ended(.success(let report)): return report
                case .ended(.failure(let error)) where isCancelled && error.code == .cancelled:
                    throw VolumeError(.timeout, "others did not release their claims in time")
                case .ended(.failure(let error)): throw error
                }
            }
        }
    }

    private func cancel() {
        var request = Request(.cancel)
        request.claim = VolumeClaim.number
        client.ask(request) { _ in }
    }

    private func askAboutOthers() {
        guard cl_terminal_width(2) > 0 else { return }
        for place in places {
            client.ask(Request(.locks, path: place.components)) { [events] answer in
                let report = try? CoordinationClient.result(answer, as: LocksReport.self)
                if let report { events.put(.others(report.turns)) }
            }
        }
    }

    /// `waiting: vim (4711) was asked to save`
    static func note(_ turns: [LocksReport.Turn], own: Int32 = getpid()) -> String {
        let waiting = turns.filter { $0.kind == .claim && $0.state != .granted }
        // In another PID namespace the daemon knows this process by another number.
        let mine = waiting.first { $0.process == own } ?? waiting.last
        let reason = mine?.reason ?? ""
        return reason.isEmpty ? "waiting for other programs' claims" : "waiting: \(reason)"
    }

    /// Returns when presenters have been told what the claim changed.
    func end() throws(VolumeError) {
        var request = Request(.release)
        request.claim = VolumeClaim.number
        _ = try client.ask(request, as: Nothing.self)
        client.close()
    }
}
