import Foundation

// Calls that wait on the calling thread. The accessor runs on it too; what it returns or throws is
// returned and thrown. When there is no turn an error is thrown and the accessor is not called.
// In asynchronous code the calls of the same names that do not block a thread are meant, whatever
// the accessor is: hence disfavoured.
extension FileCoordinator {
    /// Reads an item, when nobody writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory, also one that does not exist.
    ///   - options: How it is read; by default presenters save their changes first.
    ///   - accessor: Called once, with the URL where the item is now. The turn ends with it.
    @_disfavoredOverload @discardableResult
    public func coordinate<Value>(
        readingItemAt url: URL, options: ReadingOptions = [],
        byAccessor accessor: (URL) throws -> Value
    ) throws -> Value {
        try within([.reading(url, options)]) { try accessor($0[0]) }
    }

    /// Writes an item, when nobody reads or writes it.
    ///
    /// - Parameters:
    ///   - url: A file or directory, also one that does not exist.
    ///   - options: How it is written; by default it is updated.
    ///   - accessor: Called once, with the URL where the item is now. The turn ends with it.
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

    /// Writes two items, as moving does: the one ``WritingOptions/forMoving``, and what may be in
    /// its new place ``WritingOptions/forReplacing``.
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

    /// Asks the presenters of many items, and of all that they contain, beforehand, to save their
    /// changes or to let go. It holds nothing: make your calls in the accessor, and read with
    /// ``ReadingOptions/withoutChanges``.
    ///
    /// - Parameters:
    ///   - readingURLs: Items that will be read; of a tree only its root.
    ///   - readingOptions: Not ``ReadingOptions/resolvesSymbolicLink``.
    ///   - writingURLs: Items that will be written.
    ///   - writingOptions: Not ``WritingOptions/forReplacing``.
    ///   - batchAccessor: Called once, with what it calls, on any thread, when the batch is done.
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
        // Nothing is held, so that nothing ends with the batch.
        return try batchAccessor({})
    }

    static func preparation(
        _ readingURLs: [URL], _ readingOptions: ReadingOptions,
        _ writingURLs: [URL], _ writingOptions: WritingOptions
    ) throws -> [Access] {
        if readingOptions.contains(.resolvesSymbolicLink) {
            throw FileCoordinationError(
                .invalid, "resolvesSymbolicLink is for a call that reads, not for preparing some")
        }
        if writingOptions.contains(.forReplacing) {
            throw FileCoordinationError(
                .invalid, "forReplacing is for a call that writes, not for preparing some")
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
