import Model

/// One at a time, account by account: who has much to do waits for the others between two of its
/// steps, and not they for all of them.
actor Turns {
    private var isTaken = false
    private var waiting: [Identifier: [CheckedContinuation<Void, Never>]] = [:]
    /// Accounts that wait, the next one first.
    private var order: [Identifier] = []

    /// How many wait.
    var count: Int { waiting.values.reduce(0) { $0 + $1.count } }

    func enter(_ account: Identifier) async {
        guard isTaken else {
            isTaken = true
            return
        }
        await withCheckedContinuation { next in
            if waiting[account] == nil { order.append(account) }
            waiting[account, default: []].append(next)
        }
    }

    func leave() {
        guard !order.isEmpty else {
            isTaken = false
            return
        }
        let account = order.removeFirst()
        var mine = waiting[account] ?? []
        let next = mine.removeFirst()
        waiting[account] = mine.isEmpty ? nil : mine
        if !mine.isEmpty { order.append(account) }
        next.resume()
    }
}
