import CLinux
import Foundation
import Glibc
import Support
import SystemCalls

/// System calls of ordinary programs, without any code of the product.
enum ProgramCalls {
    static func read(_ path: String) throws(Errno) -> Data {
        let file = try opened(path, O_RDONLY)
        defer { close(file) }
        return try rest(of: file, from: 0)
    }

    static func opened(_ path: String, _ flags: Int32) throws(Errno) -> Int32 {
        let file = open(path, flags | O_CLOEXEC)
        if file < 0 { throw Errno(errno) }
        return file
    }

    static func rest(of file: Int32, from start: Int) throws(Errno) -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = try check(
                cl_pread(file, &buffer, buffer.count, Int64(start + data.count)))
            if count == 0 { return data }
            data += buffer[..<count]
        }
    }

    static func status(_ path: String) throws(Errno) -> stat {
        var status = stat()
        try check(cl_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW))
        return status
    }

    /// Changes a file through a handle that has read it. `announce` receives the old contents and
    /// the new ones.
    static func change(
        _ path: String, _ way: InPlace, writer: String, number: Int, size: Int,
        announce: (Data, Data) -> Void
    ) throws(Errno) {
        let file = try opened(path, O_RDWR | (way == .append ? O_APPEND : 0))
        let old: Data
        do throws(Errno) { old = try rest(of: file, from: 0) } catch {
            close(file)
            throw error
        }
        let new = content(writer, number, instead: old, way, size)
        announce(old, new)
        var failed: Errno?
        do throws(Errno) {
            switch way {
            case .append:
                try write(new.dropFirst(old.count), to: file)
            case .overwrite:
                let half = new.count / 2
                try write(new[half...], to: file, at: half)
                try write(new[..<half], to: file, at: 0)
                if new.count < old.count { try check(cl_ftruncate(file, Int64(new.count))) }
            case .map: try map(new, over: old.count, of: file)
            }
        } catch { failed = error }
        if close(file) != 0 && failed == nil { failed = Errno(errno) }
        if let failed { throw failed }
    }

    /// Returns a content of the same length as the old one if possible.
    private static func content(
        _ writer: String, _ number: Int, instead old: Data, _ way: InPlace, _ size: Int
    ) -> Data {
        let whole = WholeContent(writer: writer, sequence: number)
        if way == .append { return old + whole.bytes(length: size) }
        let draft = whole.bytes(length: max(4_000, old.count - 60))
        // The length may differ by a byte if the length of the header changes.
        return old.count <= 4_000
            ? draft
            : whole.bytes(length: max(4_000, old.count - 60 + old.count - draft.count))
    }

    private static func write(
        _ bytes: Data, to file: Int32, at offset: Int? = nil
    ) throws(Errno) {
        let bytes = Data(bytes)
        let count = bytes.withUnsafeBytes { raw in
            offset.map { cl_pwrite(file, raw.baseAddress, raw.count, Int64($0)) }
                ?? Glibc.write(file, raw.baseAddress, raw.count)
        }
        if count != bytes.count { throw Errno(count < -1 ? Int32(-count) : errno) }
    }

    private static func map(_ new: Data, over length: Int, of file: Int32) throws(Errno) {
        if new.count != length { try check(cl_ftruncate(file, Int64(new.count))) }
        let memory = mmap(nil, new.count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
        guard let memory, memory != MAP_FAILED else { throw Errno(errno) }
        defer { munmap(memory, new.count) }
        try copy(new, to: memory)
    }

    /// Where the mount has been killed, or the disk is full, a program that writes into a mapping
    /// ends with SIGBUS. If the kernel writes there for the program, this is an error.
    private static func copy(_ new: Data, to memory: UnsafeMutableRawPointer) throws(Errno) {
        var ends: [Int32] = [0, 0]
        try call(pipe(&ends))
        defer { for end in ends { close(end) } }
        var (rest, done) = (new[...], 0)
        while !rest.isEmpty {
            let part = Data(rest.prefix(4096))
            let written = part.withUnsafeBytes { Glibc.write(ends[1], $0.baseAddress, $0.count) }
            guard written == part.count else { throw Errno(errno) }
            guard Glibc.read(ends[0], memory + done, part.count) == part.count else {
                throw Errno(EIO)
            }
            (rest, done) = (rest.dropFirst(part.count), done + part.count)
        }
    }

    /// Performs verbs on names in a directory.
    static func changeNames(_ verb: Verb, in root: String) throws(Errno) {
        func place(_ path: String) -> String { "\(root)/\(path)" }
        switch verb {
        case .rename(let from, let to): try call(rename(place(from), place(to)))
        case .exchange(let one, let other):
            try check(
                cl_renameat2(
                    AT_FDCWD, place(one), AT_FDCWD, place(other), UInt32(RENAME_EXCHANGE)))
        case .remove(let path): try call(unlink(place(path)))
        case .date(let path, let seconds):
            let time = timespec(tv_sec: seconds, tv_nsec: 0)
            try call(utimensat(AT_FDCWD, place(path), [time, time], AT_SYMLINK_NOFOLLOW))
        case .makeDirectory(let path):
            try call(mkdir(place(path), 0o755))
            if User.mayCreate(in: path) { try call(chmod(place(path), 0o777)) }
        case .removeDirectory(let path): try call(rmdir(place(path)))
        case .symlink(let path, let target):
            try call(Glibc.symlink(target, place(path)))
        case .link(let from, let to): try call(Glibc.link(place(from), place(to)))
        default: break
        }
    }

    static func call(_ result: Int32) throws(Errno) {
        if result < 0 { throw Errno(errno) }
    }

    /// Returns the errno name, such as `ENOENT`, as in histories.
    static func name(_ error: Errno) -> String {
        let names: [Int32: String] = [
            ENOENT: "ENOENT", EEXIST: "EEXIST", ENOTEMPTY: "ENOTEMPTY", ENOTDIR: "ENOTDIR",
            EISDIR: "EISDIR", ENOTCONN: "ENOTCONN", ECONNABORTED: "ECONNABORTED", EIO: "EIO",
            ENETUNREACH: "ENETUNREACH", ETIMEDOUT: "ETIMEDOUT", EBUSY: "EBUSY", EINVAL: "EINVAL",
            ESTALE: "ESTALE", EACCES: "EACCES", EINTR: "EINTR", ENOSPC: "ENOSPC", EROFS: "EROFS",
        ]
        return names[error.code] ?? "errno \(error.code)"
    }
}
