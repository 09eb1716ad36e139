import Coordination
import Testing

@Suite struct ArbiterTests {
    /// A reader that gets the same number twice knows that no write claim was granted in between.
    @Test func lastWrite() throws {
        let arbiter = Arbiter()
        let clientSession = arbiter.join(process: 0)
        func number(_ place: String) -> UInt64? { arbiter.lastWrite(at: Stage.path(place)) }
        func claim(_ wants: String) -> ClaimID {
            arbiter.request(Request(Stage.targets(wants), clientSession: clientSession)) { _, _ in }
        }
        let first = try #require(number("/D/box"))
        let reading = claim("R /D/box")
        #expect(number("/D/box") == first)
        arbiter.step(.released(reading))
        // The claims are at the place, below it, above it, and elsewhere.
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
        // After many other claims the number must not fall back, as if there had been none.
        for index in 0..<2000 { arbiter.step(.released(claim("U /E/\(index)"))) }
        #expect(try #require(number("/D/box")) >= last)
        #expect(try #require(number("/F")) > first)
    }

    @Test("a claim keeps the contents of what it covers, if it may use them")
    func contentsStay() {
        let arbiter = Arbiter()
        let clientSession = arbiter.join(process: 7)
        func isKept(_ place: String) -> Bool {
            let holder = arbiter.holder(ofContentsAt: Stage.path(place))
            #expect(holder == nil || holder == 7)
            return holder != nil
        }
        for (wants, kept) in [
            ("R /D/box", true), ("U /D/box", true), ("X /D", true), ("M /", true),
            ("R /D", false), ("U /D", false), ("R /E", false), ("U /D/box/a", false),
            ("R:metadata /D/box", false), ("K /D/box", false), ("U /D/other", false),
        ] {
            let claim = arbiter.request(
                Request(Stage.targets(wants), clientSession: clientSession)
            ) { _, _ in }
            #expect(isKept("/D/box") == kept, "\(wants)")
            arbiter.step(.released(claim))
            #expect(!isKept("/D/box"), "\(wants)")
        }
        // A package is one document.
        let claim = arbiter.request(
            Request(Stage.targets("R /D/a.pkg"), clientSession: clientSession)
        ) { _, _ in }
        #expect(isKept("/D/a.pkg/parts/1") && !isKept("/D/b.pkg/parts/1"))
        // A claim that waits keeps nothing.
        let writing = arbiter.request(
            Request(Stage.targets("X /D"), clientSession: clientSession)
        ) { _, _ in }
        #expect(!isKept("/D/box"))
        arbiter.step(.released(claim))
        #expect(isKept("/D/box"))
        arbiter.step(.released(writing))
    }
}
