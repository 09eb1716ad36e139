import Model

/// A lock that a number of callers may have at the same time, and that is granted to accounts in
/// round-robin order. An account with much work releases it between its steps, so that other
/// accounts wait only for one step.
actor RoundRobinLock {
    private var free: Int
    private var waiting: [Identifier: [CheckedContinuation<Void, Never>]] = [:]
    /// The accounts that wait, in the order in which they get the lock.
    private var order: [Identifier] = []

    init(places: Int = 1) { free = places }

    /// Runs `body` when it is the account's turn.
    nonisolated func take<Value>(_ account: Identifier, _ body: () async throws -> Value)
        async rethrows -> Value
    {
        await enter(account)
        do {
            let value = try await body()
            await leave()
            return value
        } catch {
            await leave()
            throw error
        }
    }

    /// The number of waiting calls.
    var count: Int { waiting.values.reduce(0) { $0 + $1.count } }

    func enter(_ account: Identifier) async {
        guard free == 0 else {
            free -= 1
            return
        }
        await withCheckedContinuation { next in
            if waiting[account] == nil { order.append(account) }
            waiting[account, default: []].append(next)
        }
    }

    func leave() {
        guard !order.isEmpty else {
            free += 1
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

/// A lock for each account, or each device: of the calls with one id, one runs at a time.
package actor KeyedLock {
    private var busy: Set<Identifier> = []
    private var waiting: [Identifier: [CheckedContinuation<Void, Never>]] = [:]

    package nonisolated func alone<Value>(_ id: Identifier, _ body: () throws -> Value)
        async rethrows -> Value
    {
        await enter(id)
        do {
            let value = try body()
            await leave(id)
            return value
        } catch {
            await leave(id)
            throw error
        }
    }

    /// The same for a body that waits. It must not work for long before it waits: it may begin on
    /// this actor, so that other ids wait for it.
    nonisolated func alone<Value>(_ id: Identifier, waiting body: () async throws -> Value)
        async rethrows -> Value
    {
        await enter(id)
        do {
            let value = try await body()
            await leave(id)
            return value
        } catch {
            await leave(id)
            throw error
        }
    }

    private func enter(_ id: Identifier) async {
        if busy.insert(id).inserted { return }
        await withCheckedContinuation { waiting[id, default: []].append($0) }
    }

    private func leave(_ id: Identifier) {
        guard var mine = waiting[id] else {
            busy.remove(id)
            return
        }
        let next = mine.removeFirst()
        waiting[id] = mine.isEmpty ? nil : mine
        next.resume()
    }
}
