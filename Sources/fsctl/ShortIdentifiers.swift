import Control
import Model

/// Beginnings of the ids of a document's versions, long enough to tell them from each other.
/// Version numbers are a device's own; these are the same on all devices.
package struct ShortIdentifiers: Sendable {
    package static let lengthMin = 6
    private let length: Int

    package init(_ versions: [VersionReport]) {
        let ids = versions.map(\.id)
        length =
            (ShortIdentifiers.lengthMin...32).first { length in
                Set(ids.map { $0.prefix(length) }).count == ids.count
            } ?? 32
    }

    package func text(_ version: VersionReport) -> String { String(version.id.prefix(length)) }

    static func isStart(_ text: String) -> Bool {
        text.utf8.count >= lengthMin
            && text.allSatisfy { $0.isASCII && $0.isHexDigit }
    }

    /// Nil where no version's id begins so.
    static func find(_ text: String, in versions: [VersionReport], of document: String)
        throws(VolumeError) -> VersionReport?
    {
        guard isStart(text) else { return nil }
        let start = text.lowercased()
        let found = versions.filter { $0.id.hasPrefix(start) }
        guard found.count > 1 else { return found.first }
        throw VolumeError(
            .invalid,
            "the ids of \(Amount.count(found.count, "version")) of \(document) begin with "
                + "\(text); give more of it")
    }
}
