import Control
import Foundation
import Glibc
import Model
import Synchronization

/// Mounts that tests stand in for: mount points and their sockets.
let standIns = Mutex<[FilePath: String]>([:])

extension FilePath {
    /// Of a file's URL. A URL may hold bytes that are no UTF-8, which `URL.path` would lose.
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

    /// On the volume that it is on, if it is on one.
    func place() throws(FileCoordinationError) -> MountedPath? {
        do {
            return try MountedPath.nearest(self, standIns: standIns.withLock { $0 })
        } catch {
            throw FileCoordinationError(error)
        }
    }

    /// What a chain of symbolic links at the end leads to.
    func followed() throws(FileCoordinationError) -> FilePath {
        var path = absolute
        // As many as the kernel follows.
        for _ in 0...40 {
            guard let target = path.linkTarget else { return path }
            path =
                target.isAbsolute
                ? target : FilePath(bytes: path.parent.bytes + [0x2F] + target.bytes)
        }
        throw FileCoordinationError(
            .invalid, "\(self) is a symbolic link that leads round in a circle")
    }

    /// Of a symbolic link.
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

/// What went wrong, in a sentence, of whatever error a program gives us.
func sentence(_ error: any Error) -> String {
    (error as? any LocalizedError)?.errorDescription ?? String(describing: error)
}
