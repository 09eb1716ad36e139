import Model
import Support
import Testing

@testable import Coordination

/// The number by which devices recognize that the leases of others have changed.
struct LeaseRevisionTests {
    private func id(_ number: Int) -> Identifier { Identifier(high: 1, low: UInt64(number)) }

    @Test func theTableKnowsTheRevisionOfItsLeases() {
        var random = SeededRandom(seed: 11)
        var (table, now) = (LeaseTable(), Int64(0))
        var seen: [UInt64: Set<String>] = [:]
        for number in 1...1000 {
            now += Int64.random(in: 0...LeaseTerms.duration / 8, using: &random)
            let (volume, device) = (
                id(Int.random(in: 0...1, using: &random)), id(Int.random(in: 0...3, using: &random))
            )
            switch Int.random(in: 0...9, using: &random) {
            case 0: _ = table.step(.ended(device: device), at: now)
            case 1: _ = table.step(.left(account: device, volume: volume), at: now)
            case 2: _ = table.step(.woken, at: now)
            default:
                let count = Int.random(in: 0...3, using: &random)
                let documents = (0..<count).map {
                    LeaseHolder.Document(
                        id: id($0), use: Bool.random(using: &random) ? .edits : .shows, age: 0)
                }
                let telling = LeaseTable.Telling(
                    volume: volume, account: device, device: device, process: nil,
                    number: UInt64(number), documents: documents)
                _ = table.step(.told(telling), at: now)
            }
            for volume in 0...1 {
                for own in 0...4 {
                    let leases = table.leases(of: id(volume), except: id(own))
                    let revision = table.revision(of: id(volume), except: id(own))
                    #expect(revision == LeaseTable.revision(of: leases))
                    #expect(revision == LeaseTable.revision(of: leases.reversed()))
                    #expect(revision < 1 << 53 && (revision == 0) == leases.isEmpty)
                    let part = table.part(of: id(volume))
                    #expect(part.leases(of: id(volume), except: id(own)) == leases)
                    let text = leases.map { "\($0.device.low) \($0.document.low) \($0.use)" }
                    seen[revision, default: []].insert(text.joined(separator: ","))
                }
            }
        }
        // Different leases have different revisions.
        #expect(seen.count > 200 && seen.values.allSatisfy { $0.count == 1 })
    }
}
