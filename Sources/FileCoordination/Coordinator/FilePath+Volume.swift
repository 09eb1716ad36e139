import Control
import Foundation
import Glibc
import Model
import Synchronization

/// Mount points of pretended mounts, with their sockets, for tests.
let simulatedMounts = Mutex<[FilePath: String]>([:])

extension FilePath {
    /// The path of a file URL. A URL may contain bytes that are not UTF-8, which `URL.path` would
    /// lose.
    init(_ url: URL) {
        var bytes: [UInt8] = []
        var rest = Array(url.absoluteURL.path(percentEncoded: true).utf8)[...]
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2)
            if byte == UInt8(ascii: "%"), digits.count == 2,
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest.removeFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        while bytes.count > 1, bytes.last == UInt8(ascii: "/") { bytes.removeLast() }
        self.init(bytes: bytes)
    }

    /// The path's place on its volume; nil when it is on no volume.
    func place() throws(FileCoordinationError) -> MountedPath? {
        do {
            return try MountedPath.nearest(self, simulatedMounts: simulatedMounts.withLock { $0 })
        } catch {
            throw FileCoordinationError(error)
        }
    }

    /// The path after following a chain of symbolic links in its last component.
    func followed() throws(FileCoordinationError) -> FilePath {
        var path = absolute
        // The kernel follows as many.
        for _ in 0...40 {
            guard let target = path.linkTarget else { return path }
            path =
                target.isAbsolute
                ? target : FilePath(bytes: path.parent.bytes + [0x2F] + target.bytes)
        }
        throw FileCoordinationError(
            .invalid, "\(self) is a symbolic link that leads back to itself")
    }

    /// The target of a symbolic link; nil for other items.
    var linkTarget: FilePath? {
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = withCString { path in
            target.withUnsafeMutableBytes { buffer in
                buffer.withMemoryRebound(to: CChar.self) {
                    readlink(path, $0.baseAddress!, $0.count)
                }
            }
        }
        return count > 0 ? FilePath(bytes: Array(target[..<count])) : nil
    }
}

extension URL {
    init(_ path: FilePath, isDirectory: Bool = false) {
        if let text = String(validating: path.bytes, as: UTF8.self) {
            self.init(filePath: text, directoryHint: isDirectory ? .isDirectory : .notDirectory)
            return
        }
        let encoded = path.bytes.map { byte in
            let letter = Character(UnicodeScalar(byte))
            let isPlain =
                byte < 0x80 && (letter.isLetter || letter.isNumber || "/-._~".contains(letter))
            return isPlain ? String(letter) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        let slash = isDirectory ? "/" : ""
        self = URL(string: "file://" + encoded.joined() + slash) ?? URL(filePath: path.description)
    }
}

/// The description of any error as a sentence.
func sentence(_ error: any Error) -> String {
    (error as? any LocalizedError)?.errorDescription ?? String(describing: error)
}
