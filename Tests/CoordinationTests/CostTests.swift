import Testing

@testable import Coordination

/// Costs are counted in examined claims, because times mean nothing on a busy machine.
@Suite struct CostTests {
    static let count: UInt64 = 10_000

    private func examinedCount(_ body: (inout Coordination) -> Void) -> Int {
        var machine = Coordination()
        body(&machine)
        #expect(machine.isIdle)
        #expect(machine.isEmpty)
        return machine.examinedCount
    }

    private func request(_ id: UInt64, _ wants: String) -> Event {
        .requested(ClaimID(id), Request(Stage.targets(wants), clientSession: ClientSession(1)))
    }

    @Test func manyDocuments() {
        let examinedCount = examinedCount { machine in
            for id in 1...Self.count { _ = machine.step(request(id, "U /D/\(id)")) }
            for id in 1...Self.count { _ = machine.step(.released(ClaimID(id))) }
        }
        #expect(examinedCount <= 2 * Int(Self.count))
    }

    /// Many claims wait for one, in different orders of readers and writers.
    @Test(arguments: [["R"], ["U"], ["R", "U"], ["R", "R", "R", "U"], ["U", "X", "R"]])
    func manyWaitForOneDocument(_ letters: [String]) {
        let examinedCount = examinedCount { machine in
            _ = machine.step(request(1, "X /f"))
            var granted = [ClaimID(1)]
            for id in 2...Self.count {
                let letter = letters[Int(id) % letters.count]
                // Not inside `#expect`, because that would copy the machine.
                let effects = machine.step(request(id, "\(letter) /f"))
                #expect(effects.isEmpty)
            }
            var ended: UInt64 = 0
            while let next = granted.popLast() {
                ended += 1
                for case .granted(let id, _) in machine.step(.released(next)) { granted.append(id) }
            }
            #expect(ended == Self.count)
        }
        #expect(examinedCount <= 10 * Int(Self.count))
    }

    /// A path can be deeper than the stack allows.
    @Test func aDeepPath() {
        let examinedCount = examinedCount { machine in
            let deep = "/D" + String(repeating: "/a", count: 200_000)
            _ = machine.step(request(1, "U \(deep)"))
            let waits = machine.step(request(2, "X /D"))
            #expect(waits.isEmpty)
            _ = machine.step(.released(ClaimID(1)))
            _ = machine.step(.released(ClaimID(2)))
        }
        #expect(examinedCount <= 10)
    }

    @Test func manyReadersEndBeforeAWriterBegins() {
        let examinedCount = examinedCount { machine in
            for id in 1...Self.count { _ = machine.step(request(id, "R /f")) }
            _ = machine.step(request(Self.count + 1, "U /f"))
            for id in (1...Self.count + 1).reversed() { _ = machine.step(.released(ClaimID(id))) }
            for id in 1...Self.count + 1 { _ = machine.step(.released(ClaimID(id))) }
        }
        #expect(examinedCount <= 5 * Int(Self.count))
    }

    @Test func aDirectoryThatMovesAndAllThatItContains() {
        let examinedCount = examinedCount { machine in
            _ = machine.step(request(1, "M /D"))
            for id in 2...Self.count { _ = machine.step(request(id, "U /D/\(id)")) }
            _ = machine.step(.released(ClaimID(1)))
            for id in 2...Self.count { _ = machine.step(.released(ClaimID(id))) }
        }
        #expect(examinedCount <= 5 * Int(Self.count))
    }
}
