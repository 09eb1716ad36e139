import ChunkStore
import Model
import Sync
import Testing

@testable import Hub
@testable import HubWebDAV

/// What devices and WebDAV must calculate alike.
struct VolumeKeyTests {
    @Test func keysAndSpareNamesAreThoseOfWebDAV() {
        let (chunks, names) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        let keys = VolumeKeys(chunks: chunks, names: names)
        let row = VolumeRow(
            id: .random(), account: .random(), name: "v", epoch: .random(), chunkKey: chunks,
            nameKey: names, head: 0, collection: 0)
        let webDAV = VolumeNames(volume: row)
        let long = String(repeating: "\u{E9}", count: 127)
        for name in ["a", "e\u{301}.txt", "\u{E9}.txt", ".profile", "a.tar.gz", long, "x." + long] {
            for device in ["Phone", "a/b", long] {
                let one = keys.placement(name, in: .root, device: device, moment: 1_000_000_000)
                let other = webDAV.placement(name, in: .root, device: device, at: 1_000_000_000)
                #expect(one == other, "\(name) \(device)")
                #expect(Array(one.spare.utf8) == Array(other.spare.utf8))
            }
        }
        let digest = Digest.sha256([1, 2, 3])
        #expect(keys.name(of: digest) == webDAV.keyed(digest))
    }
}
