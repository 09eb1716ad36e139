import Control
import Model

/// Beginnings of version ids, long enough to tell the versions of one document apart. Version
/// numbers belong to one device; ids are the same on all devices.
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

    /// The version whose id begins with `text`; nil when `text` cannot be an id or no id begins so.
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
