import Foundation
import Synchronization

/// Messages on their way to a presenter: in its queue, in order, one at a time even where the queue
/// would do several.
final class Mailbox: Sendable {
    typealias Message = @Sendable (any FilePresenter) -> Void

    private let presenter: any FilePresenter
    private let state = Mutex(State())

    private struct State {
        var messages: [(isLast: Bool, message: Message)] = []
        var isBusy = false
        var isClosed = false
    }

    init(_ presenter: any FilePresenter) { self.presenter = presenter }

    /// `evenClosed`: it is owed to the presenter also when that was removed.
    func post(evenClosed: Bool = false, _ message: @escaping Message) {
        let mustStart = state.withLock { state in
            guard evenClosed || !state.isClosed else { return false }
            state.messages.append((evenClosed, message))
            defer { state.isBusy = true }
            return !state.isBusy
        }
        if mustStart { schedule() }
    }

    /// What was not delivered is dropped, but for what is owed.
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
