/// Bytes lie in a pack for a moment before the ledger says so. Who removes packs makes sure that
/// nobody is in that moment.
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

    /// Waits until nobody is in, and lets nobody in while `body` runs. One at a time calls this.
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
