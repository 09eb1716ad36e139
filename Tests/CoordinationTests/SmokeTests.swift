import Coordination
import Model
import Testing

@Suite struct SmokeTests {
    @Test func aReaderWaitsForAWriter() {
        var coordination = Coordination()
        let path = Path([.init(Name("a"))])
        let write = Request([.init(.write(.update), path)], party: Party(1))
        let read = Request([.init(.read([]), path)], party: Party(2))
        #expect(coordination.step(.requested(ClaimID(1), write)) == [.granted(ClaimID(1), [path])])
        #expect(coordination.step(.requested(ClaimID(2), read)) == [])
        #expect(coordination.step(.released(ClaimID(1))) == [.granted(ClaimID(2), [path])])
        #expect(coordination.step(.ended(Party(2))) == [])
        #expect(coordination.isIdle)
    }
}
