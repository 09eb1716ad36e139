import Synchronization

/// A callback that is set later and can be removed again.
///
/// A `Mutex` of a function would not do: each `withLock` passes the function through a generic
/// parameter, which wraps it in one more closure, and the wrapped function is stored back. A daemon
/// slowed down after some hundred thousand reads and would have overflowed its stack. This generic
/// class stores the function in its generic form, so that nothing is wrapped.
package final class CallbackSlot<Function: Sendable>: Sendable {
    private let function = Mutex<Function?>(nil)

    package init() {}

    package var current: Function? { function.withLock { $0 } }

    /// Nil removes the callback.
    package func set(_ new: Function?) { function.withLock { $0 = new } }
}
