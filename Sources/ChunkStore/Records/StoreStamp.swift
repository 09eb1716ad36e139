import CLinux
import Glibc
import Model
import SystemCalls

/// Identifies each part of a store or of a hub: the id of the whole that it belongs to, and how
/// often the parts had been marked when the part was used last. All parts of one store agree. A
/// part that was restored from a backup has a lower number, and a part of another store has another
/// id.
package struct StoreStamp: Hashable, Sendable {
    package var store: Identifier
    package var number: UInt64

    package init(store: Identifier, number: UInt64) {
        self.store = store
        self.number = number
    }

    /// The mark as one line, which `init(_:)` parses.
    package var text: String { "\(store) \(number)" }

    package init?(_ text: some StringProtocol) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let store = Identifier(String(words[0])),
            let number = UInt64(words[1])
        else { return nil }
        self.init(store: store, number: number)
    }
}

extension PackStore {
    private var markPath: String { directory.path + "/mark" }

    /// The mark of the packs. It is nil when the file does not exist or cannot be read.
    package var mark: StoreStamp? {
        guard let file = try? Descriptor(opening: markPath, flags: O_RDONLY) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
        return StoreStamp(String(decoding: bytes[..<count], as: UTF8.self))
    }

    /// Writes the mark. It is on the disk when this returns.
    package func setMark(_ mark: StoreStamp) throws(VolumeError) {
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
