import Synchronization
import Testing

@testable import Mount

struct ThreadTests {
    /// glibc unmaps the stacks of joined threads when it keeps more than 40 MB of them, and a
    /// signal to such a thread would be an access to unmapped memory.
    @Test("threads that have ended and were joined can be woken")
    func wokenAfterTheEnd() {
        let ran = Atomic(0)
        let threads = (0..<16).map { number in
            Thread("test \(number)") { ran.wrappingAdd(1, ordering: .relaxed) }
        }
        for thread in threads { thread.join() }
        for thread in threads { thread.wake() }
        #expect(ran.load(ordering: .relaxed) == 16)
    }
}
