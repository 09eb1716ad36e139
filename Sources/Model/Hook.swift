import Synchronization

/// A function that somebody sets later, or takes back.
///
/// A `Mutex` of a function wraps it twice each time that it is looked at: `withLock` takes it in
/// and out again as any value, and the wrappers stay. A daemon that had looked some hundred
/// thousand times was slow, and would have run out of stack. In here it is any value all the time.
package final class Hook<Function: Sendable>: Sendable {
    private let function = Mutex<Function?>(nil)

    package init() {}

    package var current: Function? { function.withLock { $0 } }

    /// Nil: there is none any more.
    package func set(_ new: Function?) { function.withLock { $0 = new } }
}
