import Model

/// Why a document gets no version of the contents that it has now, until it is saved again.
package struct RecordingObstacle: Sendable {
    /// The document.
    package var item: Item
    /// The rest of a sentence for people that begins with the document's path.
    package var words: String
}

// One row of `meta` each.
extension RecordingObstacle {
    private static let prefix = "obstacle."

    /// The obstacles to all alive documents.
    package static func all(in reader: Reader) throws(VolumeError) -> [RecordingObstacle] {
        let rows = try reader.all(
            "SELECT key, value FROM meta WHERE key GLOB ?", [.text(prefix + "*")]
        ) { ($0.text(0), $0.text(1)) }
        var found: [RecordingObstacle] = []
        for (key, words) in rows {
            guard let key = Int64(key.dropFirst(prefix.count)), let item = try reader.item(key),
                item.deleted == nil
            else { continue }
            found.append(RecordingObstacle(item: item, words: words))
        }
        return found
    }

    /// Notes the obstacle to a document, or that there is none any more.
    package static func set(
        _ words: String?, for item: Int64, _ t: Transaction
    ) throws(VolumeError) {
        try t.set("\(prefix)\(item)", to: words)
    }
}
