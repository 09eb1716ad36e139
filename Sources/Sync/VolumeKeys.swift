import ChunkStore
import Foundation
import Model
import Reconcile

/// The secrets of a volume that its devices share: with them, ids and names tell the hub which
/// things are equal, and nothing else.
package struct VolumeKeys: Hashable, Sendable {
    /// 32 bytes each.
    package var chunks: [UInt8]
    package var names: [UInt8]

    package init(chunks: [UInt8], names: [UInt8]) {
        self.chunks = chunks
        self.names = names
    }

    /// A chunk's id at the hub, or a content's, from the hash of what is plain.
    package func keyed(_ digest: Digest) -> Digest { Digest.keyed(by: chunks, digest.bytes) }

    /// What the hub calls a recorded content, whether its hash is known here or not.
    package func name(of content: Digest) -> Digest {
        guard content.algorithm == .keyed else { return keyed(content) }
        return content.bytes.withUnsafeBytes {
            Digest(.sha256, hash: UnsafeRawBufferPointer(rebasing: $0[1...]))
        }
    }

    /// Equal for names that are the same name: canonically equivalent ones.
    package func key(_ name: String) -> NameKey {
        // What is ASCII is composed.
        let isPlain = name.utf8.allSatisfy { $0 < 0x80 }
        let folded = Array((isPlain ? name : name.precomposedStringWithCanonicalMapping).utf8)
        return NameKey(Array(Digest.keyed(by: names, folded).bytes.dropFirst()))
    }

    /// - Parameter moment: Nanoseconds since 1970: when the item would have to make way.
    package func placement(
        _ name: String, in parent: Identifier, device: String, moment: Int64
    ) -> Placement {
        let spare = VolumeKeys.spare(name, device: device, moment: moment)
        return Placement(
            parent: parent, name: name, key: key(name), spare: spare, spareKey: key(spare))
    }

    /// `report (laptop 2026-11-21 08.15.30).txt`, cut so that the file system takes it.
    static func spare(_ name: String, device: String, moment: Int64) -> String {
        let time = Timestamp(nanoseconds: moment).fileName
        var device = device.filter { $0 != "/" }.prefix(40)
        // A letter may have many bytes: the rest must fit without the stem.
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
