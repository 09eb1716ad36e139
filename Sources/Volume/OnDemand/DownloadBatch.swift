import CLinux
import Model
import SystemCalls

/// A download of several documents, some of them at a time.
final class DownloadBatch: @unchecked Sendable {
    private let items: ItemLookup
    private let hydration: Hydration
    private let room: Room
    /// Used by `run` only, from last to first.
    private var waiting: [(path: [Name], size: Int64)]
    private let signal = Signal()
    // The following properties are guarded by `signal`.
    private var underway: [Int: (file: PlaceholderFile, wait: UInt64)] = [:]
    private var ended: [(number: Int, error: VolumeError?)] = []

    private static let together = 16

    init(
        _ files: [(path: [Name], size: Int64)], items: ItemLookup, hydration: Hydration, room: Room
    ) {
        (self.items, self.hydration, self.room) = (items, hydration, room)
        waiting = files.reversed()
    }

    func run(_ progress: (ContentsProgress) -> Bool) throws(VolumeError) {
        var done = ContentsProgress()
        done.itemsTotal = waiting.count
        done.bytesTotal = waiting.reduce(0) { $0 + $1.size }
        var sizes: [Int: Int64] = [:]
        var number = 0
        var failure: VolumeError?
        defer { abandon() }
        while true {
            while failure == nil, sizes.count < DownloadBatch.together, let next = waiting.popLast()
            {
                guard room.has(sizes.values.reduce(next.size, +)) else {
                    failure = VolumeError(
                        .full,
                        "\(next.path.shown) stays at the hub, because the rest of this disk is "
                            + "kept for what programs write. Free some space. Pinned documents "
                            + "are then downloaded automatically; request others again.")
                    break
                }
                number += 1
                sizes[number] = next.size
                begin(next.path, number)
            }
            guard !sizes.isEmpty else { break }
            let deadline = cl_clock_monotonic_ns() + 100_000_000
            _ = signal.wait(until: deadline) { !ended.isEmpty }
            let (over, partial) = signal.look {
                () -> ([(number: Int, error: VolumeError?)], Int64) in
                defer { ended = [] }
                return (ended, underway.values.reduce(0) { $0 + $1.file.bytesHere })
            }
            for (number, error) in over {
                done.items += 1
                done.bytes += sizes.removeValue(forKey: number) ?? 0
                failure = failure ?? error
            }
            var shown = done
            shown.bytes = min(done.bytes + partial, done.bytesTotal)
            guard progress(shown) else {
                throw VolumeError(.cancelled, "The download was cancelled.")
            }
        }
        if let failure { throw failure }
    }

    private func begin(_ path: [Name], _ number: Int) {
        var found = Hydration.Found.here
        var failure: VolumeError?
        if let descriptor = try? items.found(path), let status = try? descriptor.status() {
            do throws(Errno) {
                found = try hydration.use(descriptor.raw, FileSnapshot(status))
            } catch {
                failure = VolumeError(.system, "\(path.shown) cannot be filled: \(error).")
            }
        }
        guard case .absent(let file) = found else {
            // It was removed or is complete by now, or is being evicted.
            return signal.change { ended.append((number, failure)) }
        }
        let wait = hydration.want(.finish, of: file) { error in self.end(number, file, error) }
        guard let wait else { return end(number, file, nil) }
        signal.change {
            // It may have ended already.
            if !ended.contains(where: { $0.number == number }) { underway[number] = (file, wait) }
        }
    }

    private func end(_ number: Int, _ file: PlaceholderFile, _ error: VolumeError?) {
        signal.change {
            underway[number] = nil
            ended.append((number, error))
        }
        hydration.endUse(file)
    }

    private func abandon() {
        let left = signal.look { underway }
        for (file, wait) in left.values where file.cancel(wait) { hydration.endUse(file) }
    }
}
