import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// What a hub demands of an operation: other devices can use what it accepts.
struct OperationTests {
    private static func entry(
        _ device: inout TestDevice, _ change: (inout Creation, inout RevisionContent) -> Void
    ) -> OperationEntry {
        var entry = device.creation("file \(device.number)", bytes("x"))
        guard case .create(var creation) = entry.change, var content = entry.content else {
            return entry
        }
        change(&creation, &content)
        (entry.change, entry.content) = (.create(creation), content)
        return entry
    }

    private static let lies: [(String, @Sendable (inout Creation, inout RevisionContent) -> Void)] =
        [
            ("reserved", { creation, _ in creation.placement.name = ".versions" }),
            ("reserved", { creation, _ in creation.placement.spare = ".concord-incoming" }),
            ("cannot be decoded", { _, content in content.manifest.bytes = bytes("manifest") }),
            ("cannot be decoded", { _, content in content.manifest.bytes.removeLast() }),
            ("another size", { creation, _ in creation.revision?.size = 0 }),
            ("another size", { creation, _ in creation.revision?.size = 2 }),
            (
                "sum of its chunks",
                { _, content in
                    let chunk = ChunkReference(id: .sha256([1]), length: 5)
                    var manifest = Manifest(chunks: [chunk])
                    manifest.entries[0].size = 1
                    content.manifest.bytes = manifest.encoded
                }
            ),
            (
                "names chunks at most",
                { creation, content in
                    let chunk = ChunkReference(id: .sha256([1]), length: 1)
                    let count = HubLimits.references + 1
                    content.manifest.bytes =
                        Manifest(chunks: [ChunkReference](repeating: chunk, count: count)).encoded
                    creation.revision?.size = UInt64(count)
                }
            ),
            (
                "invalid name",
                { _, content in
                    var manifest = Manifest(encoded: content.manifest.bytes)
                    manifest?.entries[0].path = bytes("../x")
                    content.manifest.bytes = manifest?.encoded ?? []
                }
            ),
            (
                "another kind",
                { _, content in
                    var manifest = Manifest(encoded: content.manifest.bytes)
                    manifest?.entries[0].path = bytes("x")
                    content.manifest.bytes = manifest?.encoded ?? []
                }
            ),
            ("another kind", { creation, _ in creation.kind = .package }),
            ("other chunks", { _, content in content.chunks = PackedIDs([]) }),
            ("other chunks", { _, content in content.chunks.ids.append(.sha256([1])) }),
            (
                "other chunks",
                { _, content in
                    content.manifest.bytes = TestDevice.manifest(of: bytes("y"))
                }
            ),
            ("not zero", { creation, _ in creation.revision?.parents = [.root] }),
            ("note", { creation, _ in creation.revision?.note.name = "../x" }),
            ("note", { creation, _ in creation.revision?.note.name = ".." }),
        ]

    @Test func whatDevicesCannotUseIsRefusedAlone() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            for (index, (words, lie)) in Self.lies.enumerated() {
                let entries = [Self.entry(&device, lie), Self.entry(&device) { _, _ in }]
                let results = try await device.commit(entries).results
                #expect(results[0].refusal?.code == .malformed, "\(index)")
                #expect(results[0].refusal?.message.contains(words) == true, "\(index)")
                #expect(results[1].verdict == .applied, "\(index)")
            }
            let twice = device.entry(.random(), .resolve([device.id, device.id], nil))
            #expect(try await device.commit([twice]).results[0].refusal?.code == .malformed)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// As all times that a device sends: a device with a wrong clock can still send.
    @Test func aTimeThatIsStillToComeIsReplaced() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            let entry = Self.entry(&device) { creation, _ in
                creation.revision?.note.saved = .max
            }
            let answer = try await device.commit([entry])
            guard case .item(let item)? = try await device.changes().changes.first else {
                throw SupportError("no item")
            }
            let saved = try #require(item.current?.note.saved)
            #expect(saved <= answer.received)
        }
    }
}
