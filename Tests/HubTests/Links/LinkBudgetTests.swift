import HubProtocol
import Model
import Support
import Testing

@testable import Hub

/// What the visitors of links may take.
struct LinkBudgetTests {
    @Test("visitors of many links take no memory from accounts") func memory() async throws {
        var limits = CallerLimits()
        (limits.bodyBytesPerAccount, limits.bodyBytes) = (20, 100)
        try await RunningHub.with(limits: limits) { running in
            let (hub, maker) = (running.hub, Identifier.random())
            let (one, two) = (
                BodyBudget(of: hub, forLinksOf: maker), BodyBudget(of: hub, forLinksOf: maker)
            )
            // All links of an account share one budget.
            #expect(one.isHeld(15) && !two.isHeld(6) && two.isHeld(5))
            // All visitors together have a quarter.
            let other = BodyBudget(of: hub, forLinksOf: .random())
            #expect(!other.isHeld(6) && other.isHeld(5))
            let own = [maker, .random(), .random()].map { BodyBudget(of: hub, for: $0) }
            #expect(own.allSatisfy { $0.isHeld(20) })
            // What a visitor downloads counts like the request.
            #expect(!BodyBudget(like: one).isHeld(1) && !BodyBudget(like: own[0]).isHeld(1))
            #expect(one.isHeld(0))
            #expect(BodyBudget(like: two).isHeld(15))
        }
    }
}
