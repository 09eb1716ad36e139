import Foundation
import Glibc
import Synchronization

/// The documents of this process that are open. They are not kept alive by this table.
@MainActor enum OpenDocuments {
    private static var documents: [ObjectIdentifier: WeakDocument] = [:]

    private struct WeakDocument {
        weak var document: Document?
    }

    static func closeAll() async {
        // They close at the same time: one that waits for another program does not keep the others
        // from saving.
        let closings = documents.values.compactMap(\.document).map { document in
            Task { try? await document.close() }
        }
        for closing in closings { await closing.value }
    }

    static func add(_ document: Document) {
        documents = documents.filter { $0.value.document != nil }
        documents[ObjectIdentifier(document)] = WeakDocument(document: document)
        Termination.openCount.store(documents.count, ordering: .relaxed)
        Termination.prepare()
    }

    static func remove(_ document: Document) {
        documents[ObjectIdentifier(document)] = nil
        Termination.openCount.store(documents.count, ordering: .relaxed)
    }
}

/// Closes the open documents before a signal ends the program.
private enum Termination {
    /// How many documents are open.
    static let openCount = Atomic(0)
    /// How long documents may take to close before the program ends without them.
    private static let limitMilliseconds: Int32 = 10_000
    /// The end of a pipe to which the handler writes the number of the signal.
    nonisolated(unsafe) private static var pipeEnd: Int32 = -1
    nonisolated(unsafe) private static var process: pid_t = 0

    private static let isPrepared: Void = {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let reading = ends[0]
        (pipeEnd, process) = (ends[1], getpid())
        var isHandled = false
        for number in [SIGTERM, SIGINT, SIGHUP] {
            var action = sigaction()
            // A program that handles or ignores the signal goes on doing so.
            guard sigaction(number, nil, &action) == 0, action.isDefault else { continue }
            action = sigaction()
            action.__sigaction_handler.sa_handler = { Termination.handle($0) }
            action.sa_flags = Int32(SA_RESTART)
            if sigaction(number, &action, nil) == 0 { isHandled = true }
        }
        if isHandled { Thread.detachNewThread { wait(reading) } }
    }()

    /// Once a document is open; before that a signal has nothing to save.
    static func prepare() { isPrepared }

    /// Runs in the signal handler, so it calls only functions that are safe there.
    private static func handle(_ number: Int32) {
        let error = errno
        if getpid() == process {
            var byte = UInt8(truncatingIfNeeded: number)
            _ = write(pipeEnd, &byte, 1)
        } else {
            // A child that was forked and has not executed a program yet has no documents.
            end(number)
        }
        errno = error
    }

    private static func wait(_ reading: Int32) {
        var byte: UInt8 = 0
        while read(reading, &byte, 1) != 1 { guard errno == EINTR else { return } }
        let number = Int32(byte)
        // Without documents the program ends at once, even if its main thread is blocked.
        if openCount.load(ordering: .relaxed) == 0 { return end(number) }
        Task { @MainActor in
            await OpenDocuments.closeAll()
            end(number)
        }
        // A second signal ends the program at once.
        var input = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
        while poll(&input, 1, limitMilliseconds) < 0, errno == EINTR {}
        end(number)
    }

    /// Ends the process by the signal, so that its parent sees why it has ended.
    private static func end(_ number: Int32) {
        signal(number, SIG_DFL)
        kill(getpid(), number)
    }
}

extension sigaction {
    fileprivate var isDefault: Bool {
        // SIG_DFL is the null pointer, and both members of the union have the same address.
        sa_flags & Int32(SA_SIGINFO) == 0
            && unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self) == 0
    }
}
