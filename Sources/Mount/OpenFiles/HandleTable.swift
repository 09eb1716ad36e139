import Synchronization
import SystemCalls

/// Open files or directory streams by the handle number that the kernel uses.
final class HandleTable<Element: AnyObject & Sendable>: Sendable {
    private let slab = Mutex(Slab<Element>())

    func insert(_ element: Element) -> UInt64 {
        slab.withLock { slab in
            var number: UInt64 = 0
            _ = slab.insert {
                number = $0
                return element
            }
            return number
        }
    }

    func find(_ number: UInt64) throws(Errno) -> Element {
        guard let element = slab.withLock({ $0[number] }) else { throw Errno.invalid }
        return element
    }

    func remove(_ number: UInt64) -> Element? { slab.withLock { $0.remove(number) } }

    var numbers: [UInt64] { slab.withLock { $0.numbers } }

    var count: Int { slab.withLock { $0.count } }
}
