import Model

/// Lets one caller work at a time, and takes the accounts in turn. An account with much work leaves
/// between its steps, so that the others wait for one step and not for all of the work.
actor Turns {
    private var isTaken = false
    private var waiting: [Identifier: [CheckedContinuation<Void, Never>]] = [:]
    /// The accounts that wait, in the order in which they are let in.
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
