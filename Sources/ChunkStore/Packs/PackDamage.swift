import Model

/// A range of a pack in which no chunk can be read.
package struct PackDamage: Hashable, Sendable {
    package let pack: UInt32
    package let offset: UInt64
    /// Bytes. It is 0 when the pack could not be opened at all.
    package let length: UInt64
    /// The chunk that was stored there, if the record's header can still be read.
    package let id: Digest?
    /// What is wrong: the end of a sentence whose subject is the record.
    package let reason: String
}

extension PackDamage: CustomStringConvertible {
    package var description: String {
        let chunk = id.map { ", chunk \($0)," } ?? ""
        return "The record at \(offset) of pack \(packName(pack))\(chunk) \(reason)."
    }
}
