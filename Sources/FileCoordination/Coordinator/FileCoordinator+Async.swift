import Foundation

// Calls that wait without blocking a thread. If the task is cancelled while a call waits, the call
// throws `CancellationError`, and the coordinator can still be used.
extension FileCoordinator {
    /// Reads an item while no other program writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory. It need not exist.
    ///   - options: How it is read; by default presenters save their changes first.
    ///   - accessor: It is called once, with the URL where the item is now. The access ends when it
    ///     returns.
    @discardableResult
    public func coordinate<Value>(
        readingItemAt url: URL, options: ReadingOptions = [],
        byAccessor accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await within([.reading(url, options)]) { try await accessor($0[0]) }
    }

    /// Writes an item while no other program reads or writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory. It need not exist.
    ///   - options: How it is written; by default it is updated.
    ///   - accessor: It is called once, with the URL where the item is now. The access ends when it
    ///     returns.
    @discardableResult
    public func coordinate<Value>(
        writingItemAt url: URL, options: WritingOptions = [],
        byAccessor accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await within([.writing(url, options)]) { try await accessor($0[0]) }
    }

    /// Reads one item and writes another, as copying does.
    @discardableResult
    public func coordinate<Value>(
        readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
        byAccessor accessor: (_ reading: URL, _ writing: URL) async throws -> Value
    ) async throws -> Value {
        try await within([
            .reading(readingURL, readingOptions), .writing(writingURL, writingOptions),
        ]) { try await accessor($0[0], $0[1]) }
    }

    /// Writes two items, as moving does.
    @discardableResult
    public func coordinate<Value>(
        writingItemAt url1: URL, options options1: WritingOptions = [],
        writingItemAt url2: URL, options options2: WritingOptions = [],
        byAccessor accessor: (URL, URL) async throws -> Value
    ) async throws -> Value {
        try await within([.writing(url1, options1), .writing(url2, options2)]) {
            try await accessor($0[0], $0[1])
        }
    }

    /// Reads and writes any number of items, which are all granted together. The accessor gets
    /// their URLs from the intents.
    @discardableResult
    public func coordinate<Value>(
        with intents: [FileAccessIntent], byAccessor accessor: () async throws -> Value
    ) async throws -> Value {
        try await within(intents.map(\.access)) { urls in
            for (intent, url) in zip(intents, urls) { intent.move(to: url) }
            return try await accessor()
        }
    }

    /// Asks the presenters of many items, and of all that they contain, before the accesses
    /// themselves. It claims nothing: make your coordinated calls in the accessor.
    @discardableResult
    public func prepare<Value>(
        forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
        byAccessor batchAccessor: () async throws -> Value
    ) async throws -> Value {
        let accesses = try Self.preparation(
            readingURLs, readingOptions, writingURLs, writingOptions)
        let turn = try await outcome(of: accesses, isPreparing: true).get()
        defer { forget(turn) }
        return try await batchAccessor()
    }

    private func within<Value>(
        _ accesses: [Access], _ accessor: ([URL]) async throws -> Value
    ) async throws -> Value {
        let turn = try await outcome(of: accesses).get()
        let result: Result<Value, any Error>
        do { result = .success(try await accessor(try await turn.urls())) } catch {
            result = .failure(error)
        }
        await turn.end()
        forget(turn)
        return try result.get()
    }
}

// The call with a queue, for code that was written for it.
extension FileCoordinator {
    /// Requests all the items at once and returns. The accessor runs in the queue, and the accesses
    /// end when it returns. Unlike in other calls, it is also called when the accesses were not
    /// granted, with the error. It gets the items' URLs from the intents.
    public func coordinate(
        with intents: [FileAccessIntent], queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request(intents.map(\.access)) { outcome in
            queue.addOperation { self.run(outcome, intents, accessor) }
        }
    }

    private func run(
        _ outcome: ClaimRequest.Outcome, _ intents: [FileAccessIntent],
        _ accessor: ((any Error)?) -> Void
    ) {
        let turn: GrantedAccess
        switch outcome {
        case .failure(let error): return accessor(error)
        case .success(let given): turn = given
        }
        defer {
            turn.end()
            forget(turn)
        }
        do throws(FileCoordinationError) {
            let urls = try turn.urls()
            // The coordinator may have been cancelled after the grant, before the queue ran this.
            if isCancelled { throw .wasCancelled }
            for (intent, url) in zip(intents, urls) { intent.move(to: url) }
        } catch {
            return accessor(error)
        }
        accessor(nil)
    }
}
