import ChunkStore
import Foundation
import Model
import Reconcile

/// The secrets of a volume that its devices share. The ids of contents and the keys of names are
/// calculated with them, so they can be compared only within the volume.
package struct VolumeKeys: Hashable, Sendable {
    /// 32 bytes each.
    package var chunks: [UInt8]
    package var names: [UInt8]

    package init(chunks: [UInt8], names: [UInt8]) {
        self.chunks = chunks
        self.names = names
    }

    /// Returns the keyed id of a chunk or of contents from their digest.
    package func keyed(_ digest: Digest) -> Digest { Digest.keyed(by: chunks, digest.bytes) }

    /// Returns the hub's id of recorded contents. The journal has either their digest or, for
    /// contents that are not on this device, the keyed id.
    package func name(of content: Digest) -> Digest {
        guard content.algorithm == .keyed else { return keyed(content) }
        return content.bytes.withUnsafeBytes {
            Digest(.sha256, hash: UnsafeRawBufferPointer(rebasing: $0[1...]))
        }
    }

    /// Returns a key that is equal for canonically equivalent names.
    package func key(_ name: String) -> NameKey {
        // ASCII text is already composed.
        let isPlain = name.utf8.allSatisfy { $0 < 0x80 }
        let folded = Array((isPlain ? name : name.precomposedStringWithCanonicalMapping).utf8)
        return NameKey(Array(Digest.keyed(by: names, folded).bytes.dropFirst()))
    }

    /// - Parameter moment: Nanoseconds since 1970, for the alternative name.
    package func placement(
        _ name: String, in parent: Identifier, device: String, moment: Int64
    ) -> Placement {
        let spare = VolumeKeys.spare(name, device: device, moment: moment)
        return Placement(
            parent: parent, name: name, key: key(name), spare: spare, spareKey: key(spare))
    }

    /// Returns an alternative name such as `report (laptop 2026-11-21 08.15.30).txt`, shortened to
    /// 255 bytes.
    static func spare(_ name: String, device: String, moment: Int64) -> String {
        let time = Timestamp(nanoseconds: moment).fileName
        var device = device.filter { $0 != "/" }.prefix(40)
        // A character may have many bytes; the label must fit even without the stem.
        while device.utf8.count > 120 { device.removeLast() }
        let label = " (\(device) \(time))"
        let ending = Name(name).fileExtension
        var stem = Substring(name)
        var tail = label
        if !ending.isEmpty, ending.count < 64 {
            stem = stem.dropLast(String(decoding: ending, as: UTF8.self).count + 1)
            tail += "." + String(decoding: ending, as: UTF8.self)
        }
        while stem.utf8.count + tail.utf8.count > 255 { stem = stem.dropLast() }
        return stem + tail
    }
}
