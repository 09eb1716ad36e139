import Foundation

// Calls that block the calling thread. The accessor runs on that thread, and its result or error is
// returned or thrown. If the access is not granted, the call throws and does not call the accessor.
// These overloads are disfavoured because asynchronous code should use the calls of the same names
// that block no thread, even if its accessor is synchronous.
extension FileCoordinator {
    /// Reads an item while no other program writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory. It need not exist.
    ///   - options: How it is read; by default presenters save their changes first.
    ///   - accessor: It is called once, with the URL where the item is now. The access ends when it
    ///     returns.
    @_disfavoredOverload @discardableResult
    public func coordinate<Value>(
        readingItemAt url: URL, options: ReadingOptions = [],
        byAccessor accessor: (URL) throws -> Value
    ) throws -> Value {
        try within([.reading(url, options)]) { try accessor($0[0]) }
    }

    /// Writes an item while no other program reads or writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory. It need not exist.
    ///   - options: How it is written; by default it is updated.
    ///   - accessor: It is called once, with the URL where the item is now. The access ends when it
    ///     returns.
    @_disfavoredOverload @discardableResult
    public func coordinate<Value>(
        writingItemAt url: URL, options: WritingOptions = [],
        byAccessor accessor: (URL) throws -> Value
    ) throws -> Value {
        try within([.writing(url, options)]) { try accessor($0[0]) }
    }

    /// Reads one item and writes another, as copying does.
    @_disfavoredOverload @discardableResult
    public func coordinate<Value>(
        readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
        byAccessor accessor: (_ reading: URL, _ writing: URL) throws -> Value
    ) throws -> Value {
        try within([.reading(readingURL, readingOptions), .writing(writingURL, writingOptions)]) {
            try accessor($0[0], $0[1])
        }
    }

    /// Writes two items, as moving does: the item with ``WritingOptions/forMoving``, and its new
    /// place with ``WritingOptions/forReplacing``.
    @_disfavoredOverload @discardableResult
    public func coordinate<Value>(
        writingItemAt url1: URL, options options1: WritingOptions = [],
        writingItemAt url2: URL, options options2: WritingOptions = [],
        byAccessor accessor: (URL, URL) throws -> Value
    ) throws -> Value {
        try within([.writing(url1, options1), .writing(url2, options2)]) {
            try accessor($0[0], $0[1])
        }
    }

    /// Asks the presenters of many items, and of all that they contain, to save their changes or to
    /// close, before the accesses themselves. It claims nothing: make your coordinated calls in the
    /// accessor, and read with ``ReadingOptions/withoutChanges``.
    ///
    /// - Parameters:
    ///   - readingURLs: Items that will be read; for a tree, only its root.
    ///   - readingOptions: Any but ``ReadingOptions/resolvesSymbolicLink``.
    ///   - writingURLs: Items that will be written.
    ///   - writingOptions: Any but ``WritingOptions/forReplacing``.
    ///   - batchAccessor: It is called once. When the batch is done, it calls the handler that it
    ///     gets, on any thread.
    @_disfavoredOverload @discardableResult
    public func prepare<Value>(
        forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
        byAccessor batchAccessor: (_ completionHandler: @escaping @Sendable () -> Void) throws ->
            Value
    ) throws -> Value {
        let accesses = try Self.preparation(
            readingURLs, readingOptions, writingURLs, writingOptions)
        let turn = try wait(accesses, isPreparing: true)
        defer { forget(turn) }
        // Preparing claims nothing, so there is nothing to end when the batch is done.
        return try batchAccessor({})
    }

    static func preparation(
        _ readingURLs: [URL], _ readingOptions: ReadingOptions,
        _ writingURLs: [URL], _ writingOptions: WritingOptions
    ) throws -> [Access] {
        if readingOptions.contains(.resolvesSymbolicLink) {
            throw FileCoordinationError(
                .invalid, "resolvesSymbolicLink can only be used in a call that reads")
        }
        if writingOptions.contains(.forReplacing) {
            throw FileCoordinationError(
                .invalid, "forReplacing can only be used in a call that writes")
        }
        return readingURLs.map { .reading($0, readingOptions) }
            + writingURLs.map { .writing($0, writingOptions) }
    }

    private func within<Value>(
        _ accesses: [Access], _ accessor: ([URL]) throws -> Value
    ) throws -> Value {
        let turn = try wait(accesses)
        defer {
            turn.end()
            forget(turn)
        }
        return try accessor(turn.urls())
    }
}
