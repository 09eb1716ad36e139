import CLinux
import Glibc
import Model
import SystemCalls

// Packs are copied between stores as they are, so that locations in them stay valid.
extension PackStore {
    /// Returns all bytes of a pack; nil if there is no such pack.
    package func contents(of pack: UInt32) throws(VolumeError) -> [UInt8]? {
        let path = "\(directory.path)/\(packName(pack))"
        do throws(Errno) {
            let file = try Descriptor(opening: path, flags: O_RDONLY | O_NOFOLLOW)
            var bytes = [UInt8](repeating: 0, count: Int(try file.status().st_size))
            let count = try bytes.withUnsafeMutableBytes { buffer in
                Result { () throws(Errno) in try file.read(into: buffer, at: 0) }
            }.get()
            return Array(bytes.prefix(count))
        } catch {
            guard error != .notFound else { return nil }
            throw VolumeError(failure: error, "The pack \(path) cannot be read")
        }
    }

    /// Writes a pack that another store has under this number, in place of one that is here. It is
    /// on the disk when this returns. No chunk may be appended to this store meanwhile.
    package func add(_ pack: UInt32, _ contents: [UInt8]) throws(VolumeError) {
        let path = "\(directory.path)/\(packName(pack))"
        do throws(Errno) {
            let file = try Descriptor(
                opening: path + ".new", flags: O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600)
            try writeFully(file.raw, contents, at: 0)
            try file.sync()
            try check(cl_renameat2(AT_FDCWD, path + ".new", AT_FDCWD, path, 0))
            try directory.sync()
        } catch {
            throw VolumeError(failure: error, "The pack \(path) cannot be written")
        }
        directory.noteReplacement(of: pack, size: UInt64(contents.count))
    }
}
