import CLinux
import Glibc
import Model
import SystemCalls

/// The token that authenticates this device at a hub, and the keys of the volume there.
struct Credentials: Hashable, Sendable {
    var token: String
    var keys: VolumeKeys
}

/// The file `credentials` of a store, which only its owner can read. The journal contains no
/// secrets, because it is copied for backups and read by many tools.
///
/// The file has a line for each device that this store is or is about to become. So the token is
/// found on either side of a crash while the device in the journal changes.
struct CredentialFile {
    private let path: String

    init(store: String) { path = store + "/credentials" }

    func read() throws(VolumeError) -> [Identifier: Credentials] {
        let bytes: [UInt8]
        do throws(Errno) {
            let file = try Descriptor(opening: path, flags: O_RDONLY | O_NOFOLLOW)
            let size = Int(min(1 << 16, max(0, try file.status().st_size)))
            var read = [UInt8](repeating: 0, count: size)
            let count = try read.withUnsafeMutableBytes { buffer in
                Result { () throws(Errno) in try readFully(file.raw, into: buffer, at: 0) }
            }.get()
            bytes = Array(read[..<count])
        } catch {
            if error == .notFound { return [:] }
            throw VolumeError(.system, "The credentials \(path) cannot be read: \(error).")
        }
        var found: [Identifier: Credentials] = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            guard words.count == 3, let device = Identifier(words[0]),
                let keys = VolumeKeys(hexadecimal: words[2])
            else { continue }
            found[device] = Credentials(token: words[1], keys: keys)
        }
        return found
    }

    /// Replaces the whole file atomically and durably.
    func write(_ credentials: [Identifier: Credentials]) throws(VolumeError) {
        let lines = credentials.sorted { $0.key.description < $1.key.description }.map {
            "\($0.key) \($0.value.token) \($0.value.keys.hexadecimal)\n"
        }
        let draft = path + ".new"
        do throws(Errno) {
            // A crash may have left this file.
            _ = cl_unlinkat(AT_FDCWD, draft, 0)
            let file = try Descriptor(
                opening: draft, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
            try writeFully(file.raw, Array(lines.joined().utf8), at: 0)
            try file.sync(dataOnly: false)
            try check(cl_renameat2(AT_FDCWD, draft, AT_FDCWD, path, 0))
            try syncDirectory()
        } catch {
            throw VolumeError(
                error == .noSpace ? .full : .system,
                "The credentials \(path) cannot be written: \(error).")
        }
    }

    /// The seconds since the file was written; nil if it does not exist.
    var age: Int64? {
        var status = stat()
        guard cl_fstatat(AT_FDCWD, path, &status, 0) >= 0 else { return nil }
        return Int64(time(nil)) - Int64(status.st_mtim.tv_sec)
    }

    func remove() throws(VolumeError) {
        let result = cl_unlinkat(AT_FDCWD, path, 0)
        if result == -ENOENT { return }
        do throws(Errno) {
            try check(result)
            try syncDirectory()
        } catch {
            throw VolumeError(.system, "The credentials \(path) cannot be removed: \(error).")
        }
    }

    private func syncDirectory() throws(Errno) {
        let end = path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex
        let directory = try Descriptor(
            opening: String(path[..<end]), flags: O_RDONLY | O_DIRECTORY)
        let result = cl_fsync(directory.raw, 0)
        if result < 0, result != -EINVAL { throw Errno(-result) }
    }
}

extension VolumeKeys {
    init?(hexadecimal text: String) {
        guard let bytes = bytesOf(hexadecimal: text), bytes.count == 64 else { return nil }
        self.init(chunks: Array(bytes[..<32]), names: Array(bytes[32...]))
    }

    var hexadecimal: String { Model.hexadecimal(chunks + names) }
}
