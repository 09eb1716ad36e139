import CLinux
import Glibc
import Model
import SystemCalls

/// A temporary directory of one merge. It is removed with this object.
final class Scratch: Sendable {
    let path: String

    /// - Parameter parent: A directory. It is created (0700) if it does not exist.
    init(in parent: String) throws(VolumeError) {
        _ = mkdir(parent, 0o700)
        var template = Array("\(parent)/merge-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw VolumeError(
                .system,
                "No merge is possible: no directory can be created in \(parent): \(Errno(errno)).")
        }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { remove(Array(path.utf8CString)) }

    /// Opens a file by its name in the directory or by an absolute path.
    func open(_ name: String, flags: Int32) throws(VolumeError) -> Descriptor {
        let place = name.first == "/" ? name : "\(path)/\(name)"
        do throws(Errno) {
            return try Descriptor(opening: place, flags: flags, mode: 0o600)
        } catch {
            throw VolumeError(.system, "\(place) cannot be opened for a merge: \(error).")
        }
    }

    func makeDirectory(_ name: String) throws(VolumeError) {
        if mkdir("\(path)/\(name)", 0o700) != 0 {
            throw VolumeError(.system, "\(path)/\(name) cannot be created: \(Errno(errno)).")
        }
    }

    func write(_ bytes: [UInt8], to name: String) throws(VolumeError) {
        let file = try open(name, flags: O_WRONLY | O_CREAT | O_TRUNC)
        do throws(Errno) {
            try writeFully(file.raw, bytes, at: 0)
        } catch {
            let code: VolumeError.Code = error == .noSpace ? .full : .system
            throw VolumeError(code, "\(path)/\(name) cannot be written for a merge: \(error).")
        }
    }

    /// Returns nil when it is not a regular file, or when it is larger than `sizeMax`.
    func read(_ name: String, sizeMax: Int) throws(VolumeError) -> [UInt8]? {
        let file = try open(name, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        return try bytes(of: file, named: name, sizeMax: sizeMax)
    }

    /// Removes a file or directory, given as bytes that end with NUL, because a program may have
    /// left names that are not UTF-8.
    private func remove(_ place: [CChar]) {
        var status = stat()
        guard lstat(place, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            unlink(place)
            return
        }
        if let directory = opendir(place) {
            while let entry = readdir(directory) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { Name(cString: $0) }
                }
                if name.text == "." || name.text == ".." { continue }
                remove(
                    place.dropLast() + ("/".utf8 + name.bytes + [0]).map(CChar.init(bitPattern:)))
            }
            closedir(directory)
        }
        rmdir(place)
    }
}

/// All bytes of a regular file; nil when it is not one, or when it is larger than `sizeMax`.
func bytes(of file: borrowing Descriptor, named name: String, sizeMax: Int) throws(VolumeError)
    -> [UInt8]?
{
    do throws(Errno) {
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= sizeMax else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = try read(file, into: &bytes)
        return Array(bytes[..<count])
    } catch {
        throw VolumeError(.system, "\(name) cannot be read for a merge: \(error).")
    }
}

/// Returns fewer bytes than `bytes` has room for only at the end of the file.
func read(_ file: borrowing Descriptor, into bytes: inout [UInt8]) throws(Errno) -> Int {
    let raw = file.raw
    return try bytes.withUnsafeMutableBytes { all in
        Result { () throws(Errno) in try readFully(raw, into: all, at: 0) }
    }.get()
}
