import HubProtocol
import Model
import Support
import Testing

@testable import Hub

/// How many volumes a user is a member of.
struct MemberPlaceTests {
    @Test("neither own volumes nor those of one owner take all places of a user")
    func places() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device(of: "anna", volume: "team")
            let carl = try await hub.device(of: "carl", volume: "carl's")
            _ = try await hub.device(of: "bert")
            let last = try await hub.hub.ledger.write { transaction in
                let owner = try transaction.existingAccount("anna").id
                let bert = try transaction.existingAccount("bert").id
                func add(_ name: String, of account: Identifier) throws -> VolumeRow {
                    let volume = VolumeRow(
                        id: .random(), account: account, name: name, epoch: .random(),
                        chunkKey: [1], nameKey: [2], head: 0, collection: 0)
                    try transaction.addVolume(volume, at: 1)
                    return volume
                }
                for number in 0..<HubLimits.members { _ = try add("own \(number)", of: bert) }
                for number in 1..<HubLimits.membersOfOneOwner {
                    let volume = try add("\(number)", of: owner)
                    try transaction.membership.setMember(bert, of: volume.id, .reader, at: 2)
                }
                return try add("last", of: owner)
            }
            try await anna.change(.add, "bert", .editor)
            let refused = try await failure {
                try await hub.hub.ledger.write { transaction in
                    let request = MemberRequest(.add, "bert", role: .editor)
                    try transaction.membership.change(request, of: last, at: 3)
                }
            }
            #expect(refused.code == .quota && refused.message.hasSuffix("."))
            try await carl.change(.add, "bert", .editor)
        }
    }
}
