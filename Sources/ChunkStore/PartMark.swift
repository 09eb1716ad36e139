import CLinux
import Glibc
import Model
import SystemCalls

/// What each part of a store or of a hub says of itself: to which one it belongs, and how often
/// that had been opened when the part was used last. Parts of one store agree; a part that was put
/// back from a backup is behind the others, and one of another store has another identifier.
package struct PartMark: Hashable, Sendable {
    package var store: Identifier
    package var opening: UInt64

    package init(store: Identifier, opening: UInt64) {
        self.store = store
        self.opening = opening
    }

    /// One line, as in `init(_:)`.
    package var text: String { "\(store) \(opening)" }

    package init?(_ text: some StringProtocol) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let store = Identifier(String(words[0])),
            let opening = UInt64(words[1])
        else { return nil }
        self.init(store: store, opening: opening)
    }
}

extension PackStore {
    private var markPath: String { directory.path + "/mark" }

    /// The mark of the packs; nil where there is none, or it cannot be read.
    package var mark: PartMark? {
        guard let file = try? Descriptor(opening: markPath, flags: O_RDONLY) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
        return PartMark(String(decoding: bytes[..<count], as: UTF8.self))
    }

    /// Synced to the disk when this returns.
    package func setMark(_ mark: PartMark) throws(VolumeError) {
        do throws(Errno) {
            let file = try Descriptor(
                opening: markPath + ".new", flags: O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600)
            try writeFully(file.raw, Array((mark.text + "\n").utf8), at: 0)
            try file.sync()
            try check(cl_renameat2(AT_FDCWD, markPath + ".new", AT_FDCWD, markPath, 0))
            try directory.sync()
        } catch {
            throw VolumeError(failure: error, "The mark of \(directory.path) cannot be written")
        }
    }
}
