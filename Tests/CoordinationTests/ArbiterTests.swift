import Coordination
import Testing

@Suite struct ArbiterTests {
    /// Who reads twice the same number knows that nobody had a turn to write in between.
    @Test func lastWrite() throws {
        let arbiter = Arbiter()
        let party = arbiter.join(process: 0)
        func number(_ place: String) -> UInt64? { arbiter.lastWrite(at: Stage.path(place)) }
        func claim(_ wants: String) -> ClaimID {
            arbiter.request(Request(Stage.targets(wants), party: party)) { _, _ in }
        }
        let first = try #require(number("/D/box"))
        let reading = claim("R /D/box")
        #expect(number("/D/box") == first)
        arbiter.step(.released(reading))
        // At the place, below, above; elsewhere.
        var last = first
        for wants in ["U /D/box", "G /D/box/a/b", "X /D"] {
            let writing = claim(wants)
            #expect(number("/D/box") == nil)
            #expect(number("/E/box") == first)
            arbiter.step(.released(writing))
            let now = try #require(number("/D/box"))
            #expect(now > last)
            last = now
        }
        arbiter.step(.released(claim("U /D/other")))
        #expect(number("/D/box") == last)
        // However many there were since, nobody is told that there were none.
        for index in 0..<2000 { arbiter.step(.released(claim("U /E/\(index)"))) }
        #expect(try #require(number("/D/box")) >= last)
        #expect(try #require(number("/F")) > first)
    }
}
