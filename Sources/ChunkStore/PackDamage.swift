import Model

/// A stretch of a pack in which no chunk can be read.
package struct PackDamage: Hashable, Sendable {
    package let pack: UInt32
    package let offset: UInt64
    /// Bytes; 0 when the pack could not be opened at all.
    package let length: UInt64
    /// The chunk that was to lie there, where the record's header still names it.
    package let id: Digest?
    /// What is wrong, as the end of a sentence that begins with the record.
    package let reason: String
}

extension PackDamage: CustomStringConvertible {
    package var description: String {
        let chunk = id.map { ", chunk \($0)," } ?? ""
        return "The record at \(offset) of pack \(packName(pack))\(chunk) \(reason)."
    }
}
