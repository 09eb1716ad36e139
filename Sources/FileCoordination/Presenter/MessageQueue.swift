import Foundation
import Synchronization

/// Delivers messages to a presenter in its queue: in order and one at a time, even if the queue is
/// concurrent.
final class MessageQueue: Sendable {
    typealias Message = @Sendable (any FilePresenter) -> Void

    private let presenter: any FilePresenter
    private let state = Mutex(State())

    private struct State {
        var messages: [(isLast: Bool, message: Message)] = []
        var isBusy = false
        var isClosed = false
    }

    init(_ presenter: any FilePresenter) { self.presenter = presenter }

    /// Posts a message. With `afterRemoval` it is delivered even after the presenter was removed.
    func post(afterRemoval: Bool = false, _ message: @escaping Message) {
        let mustStart = state.withLock { state in
            guard afterRemoval || !state.isClosed else { return false }
            state.messages.append((afterRemoval, message))
            defer { state.isBusy = true }
            return !state.isBusy
        }
        if mustStart { schedule() }
    }

    /// Drops messages that were not delivered, except those posted with `afterRemoval`.
    func close() {
        state.withLock { state in
            state.isClosed = true
            state.messages.removeAll { !$0.isLast }
        }
    }

    private func schedule() {
        presenter.presentedItemOperationQueue.addOperation { [self] in
            let message = state.withLock { state in
                state.messages.isEmpty ? nil : state.messages.removeFirst().message
            }
            message?(presenter)
            let goesOn = state.withLock { state in
                state.isBusy = !state.messages.isEmpty
                return state.isBusy
            }
            if goesOn { schedule() }
        }
    }
}
