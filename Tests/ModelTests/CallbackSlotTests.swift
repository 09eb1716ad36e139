import Model
import Testing

@Suite struct CallbackSlotTests {
    @Test("a callback that was read a million times still works") func looks() {
        let hook = CallbackSlot<@Sendable (Identifier) -> Int?>()
        #expect(hook.current == nil)
        hook.set { _ in 7 }
        var sum = 0
        for _ in 0..<1_000_000 where hook.current != nil { sum += 1 }
        #expect(hook.current?(.random()) == 7)
        #expect(sum == 1_000_000)
        hook.set(nil)
        #expect(hook.current == nil)
    }
}
