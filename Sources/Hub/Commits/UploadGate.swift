/// Excludes uploads while packs are removed. An uploaded chunk is in a pack for a moment before the
/// ledger knows it, and its pack must not be removed in that moment.
actor UploadGate {
    private var uploads = 0
    private var isClosed = false
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var drained: CheckedContinuation<Void, Never>?

    func enter() async {
        while isClosed { await withCheckedContinuation { waiting.append($0) } }
        uploads += 1
    }

    func leave() {
        uploads -= 1
        guard uploads == 0 else { return }
        drained?.resume()
        drained = nil
    }

    /// Waits until no upload is active, and blocks new ones while `body` runs. Only one caller at a
    /// time may use it.
    func alone<Value: Sendable>(_ body: @Sendable () async throws -> Value) async rethrows -> Value
    {
        isClosed = true
        defer {
            isClosed = false
            for next in waiting { next.resume() }
            waiting = []
        }
        if uploads > 0 { await withCheckedContinuation { drained = $0 } }
        return try await body()
    }
}
