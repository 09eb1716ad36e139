import ChunkStore
import Foundation
import Model
import Reconcile

/// The keys of names and contents in a volume. Devices calculate the same ones (`VolumeKeys`).
package struct VolumeNames: Sendable {
    package let volume: VolumeRow

    package init(volume: VolumeRow) { self.volume = volume }

    /// Returns a key that is equal for canonically equivalent names.
    package func key(_ name: String) -> NameKey {
        // ASCII text is already composed.
        let isPlain = name.utf8.allSatisfy { $0 < 0x80 }
        let folded = Array((isPlain ? name : name.precomposedStringWithCanonicalMapping).utf8)
        return NameKey(Array(Digest.keyed(by: volume.nameKey, folded).bytes.dropFirst()))
    }

    /// The place of an item, with the name that it gets if another item takes the name first:
    /// `report (Phone 2026-11-21 08.15.30).txt`, at most 255 bytes long.
    package func placement(
        _ name: String, in parent: Identifier, device: String, at time: Int64
    ) -> Placement {
        var device = device.filter { $0 != "/" }.prefix(40)
        while device.utf8.count > 120 { device.removeLast() }
        var tail = " (\(device) \(Timestamp(nanoseconds: time).fileName))"
        let ending = Name(name).fileExtension
        var stem = Substring(name)
        if !ending.isEmpty, ending.count < 64 {
            stem = stem.dropLast(String(decoding: ending, as: UTF8.self).count + 1)
            tail += "." + String(decoding: ending, as: UTF8.self)
        }
        while stem.utf8.count + tail.utf8.count > 255 { stem = stem.dropLast() }
        let spare = String(stem) + tail
        return Placement(
            parent: parent, name: name, key: key(name), spare: spare, spareKey: key(spare))
    }

    package func keyed(_ digest: Digest) -> Digest { .keyed(by: volume.chunkKey, digest.bytes) }

    /// The id of a document's contents, which is equal for equal contents.
    package func content(_ manifest: Manifest) -> Digest { keyed(.sha256(manifest.contentForm)) }
}
