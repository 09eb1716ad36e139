import Journal
import Model

/// What a user has set for a document or directory: that it is kept on this device, or that it is
/// not although a directory above it is.
package struct Pin: Sendable {
    package var path: [Name]
    package var isDirectory: Bool
    package var isPinned: Bool
    /// How many documents are still to be downloaded because of this setting, and their bytes.
    package var missing = 0
    package var missingBytes: Int64 = 0
}

extension Downloads {
    /// What is set at or below a path, and the setting of the nearest directory above it if there
    /// is one; sorted by path. Counting what is missing reads all documents that are not here.
    package func pins(below path: [Name], countsMissing: Bool) throws(VolumeError) -> [Pin] {
        try items.catchUp(with: path, timeoutSeconds: 5)
        return try items.journal.read { reader in
            let deciding = try reader.decidingPin(for: try items.known(path, reader).key)?.item
            var pins: [Int64: Pin] = [:]
            for (key, isPinned) in try reader.pins() {
                guard let item = try reader.item(key), item.deleted == nil,
                    let place = try reader.path(of: key),
                    key == deciding || place.starts(with: path)
                else { continue }
                pins[key] = Pin(
                    path: place, isDirectory: item.kind == .directory, isPinned: isPinned)
            }
            var cursor: Int64 = 0
            while countsMissing, !pins.isEmpty {
                let page = try reader.absentItems(after: cursor, limit: 512)
                guard let last = page.last else { break }
                cursor = last
                for key in page {
                    guard let setting = try reader.decidingPin(for: key), setting.isPinned,
                        let item = try reader.item(key), item.deleted == nil
                    else { continue }
                    pins[setting.item]?.missing += 1
                    pins[setting.item]?.missingBytes += Int64(clamping: item.size)
                }
            }
            return pins.values.sorted { $0.path.lexicographicallyPrecedes($1.path) }
        }
    }
}
